"""The form of sessions: ``cbs_<id>_<secret>`` in a cookie, and what is derived from one with the deployment's secret.

A part of the id is a MAC of the rest of it, so that ids that this deployment never made are refused without a query.
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import cached_property

from bus.identity.credentials.base62 import random_text

SECRET_NAME = "sessions"
"""The deployment's secret that sessions are hashed with, in table ``secrets``."""
_RANDOM_CHARS, _TAG_CHARS, _SECRET_CHARS = 16, 8, 43
PREFIX = "cbs_"
SESSION = re.compile(
    rf"{PREFIX}([0-9A-Za-z]{{{_RANDOM_CHARS}}}[0-9a-f]{{{_TAG_CHARS}}})_[0-9A-Za-z]{{{_SECRET_CHARS}}}"
)


class SessionForm:
    """Makes and recognises the sessions of one deployment; reads its secret when it is first needed."""

    def __init__(self, read_secret: Callable[[], str], issuer: str) -> None:
        """``issuer``: who signs people in; sessions of another one are not valid."""
        self._read_secret = read_secret
        self._issuer = issuer

    def make(self) -> tuple[str, str]:
        """Return a new session's id and the text of its cookie."""
        random = random_text(_RANDOM_CHARS)
        session_id = random + self._tag(random)
        return session_id, f"{PREFIX}{session_id}_{random_text(_SECRET_CHARS)}"

    def id_of(self, text: str) -> str | None:
        """Return the id of a well-formed session; None: this deployment made no such session."""
        match = SESSION.fullmatch(text)
        if match is None:
            return None
        random, tag = match[1][:_RANDOM_CHARS], match[1][_RANDOM_CHARS:]
        return match[1] if hmac.compare_digest(self._tag(random), tag) else None

    def digest(self, text: str) -> str:
        """Return the keyed hash of a session, which is what the database has of it."""
        return self.mac("session", text).hex()

    def csrf_token(self, text: str) -> str:
        """Return the token that unsafe requests with this session carry in a header."""
        return urlsafe_b64encode(self.mac("csrf", text)).decode().rstrip("=")

    @cached_property
    def cookie_tag(self) -> str:
        """What the names of this deployment's cookies end with: cookies of a host are shared by all of its ports."""
        return self.mac("cookie", "").hex()[:8]

    def mac(self, purpose: str, text: str) -> bytes:
        """Return the MAC of a text; different purposes have different ones."""
        return hmac.digest(self._secret, f"{purpose}:{self._issuer}:{text}".encode(), "sha256")

    def _tag(self, random: str) -> str:
        return self.mac("id", random).hex()[:_TAG_CHARS]

    @cached_property
    def _secret(self) -> bytes:
        return bytes.fromhex(self._read_secret())
