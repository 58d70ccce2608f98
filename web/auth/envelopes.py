"""Signed envelopes of requests: a holder of one of the deployment's keys signed these bytes for this call."""

from __future__ import annotations

import logging
import time

import orjson
from flask import Flask, current_app, g, request

from bus.identity.envelope import HEADER, CallEnvelope, SqlNonces, verify_golden_call_envelope
from bus.identity.errors import EnvelopeRefused
from config.tracing import change_trace, is_trace_id
from web.auth.authentication import current_principal
from web.process import WebProcess

log = logging.getLogger(__name__)

EXTENSION = "callboard_envelopes"
SIGNED_WITH = "envelope_key"
"""The member of a run's metadata that names the key of the envelope by which it was started."""


class EnvelopeVerifier:
    """Verifies the envelopes of requests; one per process."""

    def __init__(self, process: WebProcess) -> None:
        self._settings = process.settings
        self._keys = process.settings.envelope_key_map
        self._nonces = SqlNonces(lambda: process.journal.database)

    def envelope(self, body: bytes) -> CallEnvelope | None:
        """Return the envelope of the request that is being handled, used up; None: it has none, and needs none.

        Raises:
            EnvelopeRefused: it is not valid, or missing where one is required.
            CallboardError: the database does not answer; the request is refused then.
        """
        text = request.headers.get(HEADER)
        if text is None and not self._settings.require_envelope:
            return None
        try:
            return verify_golden_call_envelope(
                text,
                keys=self._keys,
                nonces=self._nonces,
                audience=self._settings.envelope_audience_of(current_principal().tenant),
                method=f"{request.method} {request.path}",
                body=body,
                now_s=time.time(),
            )
        except EnvelopeRefused as error:
            log.info("an envelope was refused: %s", error.facts["why"], extra={"path": request.path})
            raise


def register(app: Flask, process: WebProcess) -> None:
    """Let the application's calls verify envelopes."""
    app.extensions[EXTENSION] = EnvelopeVerifier(process)


def verify_envelope(body: bytes) -> None:
    """Return if the request with this body has a valid envelope, or has none and needs none; after authentication.

    Raises:
        EnvelopeRefused: it does not.
    """
    verifier: EnvelopeVerifier = current_app.extensions[EXTENSION]
    g.envelope = envelope = verifier.envelope(body)
    trace_id = signed_trace_id(envelope) if envelope is not None else None
    if trace_id is not None:
        change_trace(trace_id)


def signed_trace_id(envelope: CallEnvelope) -> str | None:
    """Return the ``trace_id`` of an envelope's context, where that is a JSON object which has one."""
    try:
        context = orjson.loads(envelope.context)
    except ValueError:
        return None
    trace_id = context.get("trace_id") if isinstance(context, dict) else None
    return trace_id if is_trace_id(trace_id) else None


def current_envelope() -> CallEnvelope | None:
    """Return the verified envelope of the request that is being handled, if it has one."""
    envelope: CallEnvelope | None = g.get("envelope")
    return envelope
