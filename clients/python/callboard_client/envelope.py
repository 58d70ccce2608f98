"""Signed envelopes: a shared key signs the bytes of a call, with their time, whom they are for, and a nonce."""

from __future__ import annotations

import hmac
import json
import re
import secrets
import time
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

HEADER = "Callboard-Envelope"
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_AUDIENCE = re.compile(r"[!-~]+")
_MIN_SECRET_CHARS = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvelopeKey:
    """A key of the server's ``CALLBOARD_ENVELOPE_KEYS``."""

    id: str
    secret: str = field(repr=False)
    audience: str = "default/default"
    """The deployment's name, or its ``CALLBOARD_ENVELOPE_AUDIENCE``, then ``/`` and the caller's tenant."""

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise ValueError("the id of a key has 1 to 64 letters, digits, '.', '_' and '-'.")
        if not self.secret.isascii() or len(self.secret) < _MIN_SECRET_CHARS:
            raise ValueError(f"the secret of a key has at least {_MIN_SECRET_CHARS} ASCII characters.")
        if not _AUDIENCE.fullmatch(self.audience):
            raise ValueError("the audience has printable ASCII characters without spaces, as 'default/default'.")

    def headers(self, method: str, body: bytes) -> dict[str, str]:
        """Return the header of one request: its body as it is sent, and its method, such as ``POST /execute``.

        Each holds for one request: sign a repeated one anew.
        """
        return {HEADER: self._envelope(method, body)}

    def mcp_meta(self, name: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the ``_meta`` of one call over MCP, for a session of its SDK."""
        text = json.dumps({"name": name, "arguments": dict(arguments or {})}, allow_nan=False)
        return {"callboard/envelope": self._envelope("tools/call", text.encode()), "callboard/call": text}

    def _envelope(self, method: str, body: bytes) -> str:
        head = f'v1;kid="{self.id}";ts={int(time.time())};nonce="{secrets.token_urlsafe(16)}"'
        signed = f"{head}\n{self.audience}\n{method}\n".encode() + body
        signature = b64encode(hmac.digest(self.secret.encode(), signed, "sha256")).decode()
        return f"{head};sig=:{signature}:"
