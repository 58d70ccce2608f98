"""A sign-in: what ties the provider's answer to the browser that asked, and who the person is here.

All that ties it is derived from one random text and its end, which the browser keeps in a cookie, so that strangers who
begin sign-ins store nothing here. Who the person is follows from the claims of the provider and the settings.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bus.identity.credentials.key_form import random_text
from bus.identity.credentials.sessions import SessionForm
from config.identity.principal import NAME, NAME_FORM, Principal, parse_mapping, roles_of
from config.settings import Settings
from web.oidc.errors import SIGN_IN_REFUSED

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


DERIVED = re.compile(r"sub-[0-9a-f]{32}")
MAX_NAME_CHARS = 80
LOCAL = (
    "your name here would be that of this installation's own principal, whose runs are the terminal's; ask its "
    "administrator for another CALLBOARD_PRINCIPAL."
)


def principal_of(claims: Mapping[str, Any], settings: Settings) -> Principal:
    """Return the principal that signed in, with the roles of its groups that the settings map.

    Raises:
        SIGN_IN_REFUSED: a claim is missing, no name or the local principal's, or the person is in none of the groups
            that may sign in.
    """
    groups = groups_in(claims, settings.oidc_roles_claim)
    needed = settings.oidc_group_list
    if needed and groups.isdisjoint(needed):
        raise SIGN_IN_REFUSED("you are in no group that may use this Callboard; ask its administrator for access.")
    roles = roles_of(sorted(groups), parse_mapping(settings.oidc_roles))
    principal = Principal(tenant=_tenant(claims, settings), id=_principal_id(claims, settings), roles=roles)
    if settings.is_local(principal):
        raise SIGN_IN_REFUSED(LOCAL)
    return principal


def display_name(claims: Mapping[str, Any]) -> str:
    """Return how the provider calls the person, for the page."""
    value = next((claims[name] for name in ("name", "preferred_username", "email") if claims.get(name)), "")
    return value[:MAX_NAME_CHARS].replace("\0", "") if isinstance(value, str) else ""


def groups_in(claims: Mapping[str, Any], path: str) -> frozenset[str]:
    """Return the texts of a claim, which is a list or one text."""
    value: Any = claims.get(path)
    if value is None:
        value = claims
        for part in path.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, str):
        return frozenset([value])
    return frozenset(each for each in value if isinstance(each, str)) if isinstance(value, list) else frozenset()


def _tenant(claims: Mapping[str, Any], settings: Settings) -> str:
    name = settings.oidc_tenant_claim
    return settings.tenant if not name else _named(claims, name)


def _principal_id(claims: Mapping[str, Any], settings: Settings) -> str:
    """Return the principal's name; a ``sub`` that is no name is hashed, since no person could change it."""
    name = settings.oidc_principal_claim
    if name == "email" and claims.get("email_verified") is not True:
        raise SIGN_IN_REFUSED(
            "the identity provider has not verified your address; verify it there, then sign in again."
        )
    if name != "sub":
        return _named(claims, name)
    sub = str(claims["sub"])
    is_name = re.fullmatch(NAME, sub) and not DERIVED.fullmatch(sub)
    return sub if is_name else "sub-" + hashlib.sha256(sub.encode()).hexdigest()[:32]


def _named(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not re.fullmatch(NAME, value):
        raise SIGN_IN_REFUSED(f"the claim '{name[:40]}' of the identity provider has to be {NAME_FORM}.")
    return value
