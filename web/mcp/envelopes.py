"""Signed envelopes of calls over MCP: two members of a call's `_meta`, since no transport keeps a call's bytes.

The one is the envelope. The other is the text that it signs: the call's name and arguments as JSON. It has to say the
same as the call does.
"""

from __future__ import annotations

import logging
import time
from typing import Any

import orjson
from mcp.types import CallToolRequestParams

from config.errors import BadRequest
from config.identity.envelope import CallEnvelope, verify_golden_call_envelope
from config.identity.envelope_nonces import SqlNonces
from config.identity.errors import EnvelopeRefused
from config.identity.principal import Principal
from web.calls.bodies import parse_object
from web.mcp.service import Service

log = logging.getLogger(__name__)

ENVELOPE, SIGNED = "callboard/envelope", "callboard/call"
METHOD = "tools/call"


class Envelopes:
    """Verifies the envelopes of one transport's calls."""

    def __init__(self, service: Service) -> None:
        self._settings = service.settings
        self._keys = service.settings.envelope_key_map
        self._nonces = SqlNonces(lambda: service.journal.database)

    def verify(self, principal: Principal, params: CallToolRequestParams) -> CallEnvelope | None:
        """Return the envelope of a call, used up; None: it has none, and needs none. Blocks.

        Raises:
            EnvelopeRefused: it is not valid, signs another call, or is missing where one is required.
            CallboardError: the database does not answer; the call must not be made.
        """
        meta: dict[str, Any] = dict(params.meta or {})
        if not self._settings.require_envelope and not meta.keys() & {ENVELOPE, SIGNED}:
            return None
        try:
            return self._verified(principal, params, meta)
        except EnvelopeRefused as error:
            log.info("an envelope was refused: %s", error.facts["why"])
            raise

    def _verified(self, principal: Principal, params: CallToolRequestParams, meta: dict[str, Any]) -> CallEnvelope:
        text, signed = meta.get(ENVELOPE), meta.get(SIGNED, "")
        if ENVELOPE in meta and not (isinstance(text, str) and isinstance(signed, str) and _is_of(signed, params)):
            raise EnvelopeRefused("form")
        return verify_golden_call_envelope(
            text,
            keys=self._keys,
            nonces=self._nonces,
            audience=self._settings.envelope_audience_of(principal.tenant),
            method=METHOD,
            body=signed.encode(),
            now_s=time.time(),
        )


def _is_of(signed: str, params: CallToolRequestParams) -> bool:
    """Return whether the text says the name and the arguments of the call, and nothing else."""
    try:
        said, made = parse_object(signed.encode()), {"name": params.name, "arguments": params.arguments or {}}
        return orjson.dumps(said, option=orjson.OPT_SORT_KEYS) == orjson.dumps(made, option=orjson.OPT_SORT_KEYS)
    except (BadRequest, UnicodeEncodeError, TypeError):  # no JSON, or a value that no JSON of ours has
        return False
