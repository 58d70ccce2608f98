"""A sign-in that has begun: what ties the provider's answer to the browser that asked.

All of it is derived from one random text and its end, which the browser keeps in a cookie, so that strangers who begin
sign-ins store nothing here.
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64encode
from dataclasses import dataclass

from bus.identity.credentials.base62 import random_text
from bus.identity.credentials.session_form import SessionForm

LIFETIME_MS = 10 * 60 * 1000
"""How long a person may take to sign in at the provider."""
_RANDOM_CHARS = 32
_TEXT = re.compile(rf"[0-9A-Za-z]{{{_RANDOM_CHARS}}}\.([0-9]{{13}})\.[0-9A-Za-z_-]{{43}}")


@dataclass(frozen=True, slots=True)
class Attempt:
    """A sign-in of one browser at one origin."""

    form: SessionForm
    text: str
    """What the cookie has: random characters, the end in milliseconds, and a MAC of both and of the origin."""

    @classmethod
    def begin(cls, form: SessionForm, origin: str, now_ms: int) -> Attempt:
        start = f"{random_text(_RANDOM_CHARS)}.{now_ms + LIFETIME_MS}"
        return cls(form, f"{start}.{_mac(form, origin, start)}")

    @classmethod
    def of_cookie(cls, form: SessionForm, origin: str, text: str, now_ms: int) -> Attempt | None:
        """Return the sign-in that a cookie is of; None: this deployment did not begin it here, or it is over."""
        match = _TEXT.fullmatch(text)
        if match is None or int(match[1]) < now_ms:
            return None
        start, _, mac = text.rpartition(".")
        return cls(form, text) if hmac.compare_digest(_mac(form, origin, start), mac) else None

    def has(self, state: str) -> bool:
        """Return whether this is the state that was sent to the provider."""
        return hmac.compare_digest(self.state.encode(), state.encode("utf-8", "replace"))

    @property
    def state(self) -> str:
        return self._derived("state")

    @property
    def nonce(self) -> str:
        return self._derived("nonce")

    @property
    def verifier(self) -> str:
        """The secret of PKCE: 43 characters, of which the provider first gets the hash."""
        return self._derived("verifier")

    @property
    def digest(self) -> str:
        """What the database has of it, so that it makes one session."""
        return self.form.mac("sign-in", self.text).hex()

    def _derived(self, purpose: str) -> str:
        return _encoded(self.form.mac(purpose, self.text))


def _mac(form: SessionForm, origin: str, start: str) -> str:
    return _encoded(form.mac("attempt", f"{origin} {start}"))


def _encoded(mac: bytes) -> str:
    return urlsafe_b64encode(mac).decode().rstrip("=")
