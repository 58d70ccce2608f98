"""Who a person is here, by the claims of the provider and the settings."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from config.identity.principal import NAME, NAME_FORM, Principal, parse_mapping, roles_of
from config.settings import Settings
from web.oidc.errors import SIGN_IN_REFUSED

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
