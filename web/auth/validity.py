"""Whether callers that were authenticated earlier still would be: open streams and long waits are checked again."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from config.clock import epoch_ms
from config.database.engine import Database
from config.identity import keys
from config.identity.certificates import principals_in
from config.identity.credential import Caller, CredentialKind
from config.identity.principals import disabled_among

ENDLESS = frozenset({CredentialKind.NONE, CredentialKind.LOCAL})
"""Kinds of credentials that end with the process only."""


def can_end(caller: Caller) -> bool:
    """Return whether a caller's credential can become invalid, or stand for less, while the process runs."""
    return caller.credential.kind not in ENDLESS


def ended(database: Database, callers: Collection[Caller], rules: Path | None = None) -> frozenset[Caller]:
    """Return the callers whose credential is no longer valid, or stands for other roles or another scope by now.

    ``rules`` is the file that names the principals of client certificates.
    """
    key_ids = [caller.credential.id for caller in callers if caller.credential.kind is CredentialKind.KEY]
    others = [caller for caller in callers if can_end(caller) and caller.credential.kind is not CredentialKind.KEY]
    with database.read() as connection:
        live = keys.live(connection, key_ids) if key_ids else {}
        disabled = disabled_among(connection, {(each.principal.tenant, each.principal.id) for each in others})
    valid_keys, now_ms = {key.caller for key in live.values()}, epoch_ms()
    gone = [caller for caller in callers if caller.credential.kind is CredentialKind.KEY and caller not in valid_keys]
    return frozenset([*gone, *(caller for caller in others if _is_over(caller, now_ms, disabled, rules))])


def _is_over(caller: Caller, now_ms: int, disabled: Collection[tuple[str, str]], rules: Path | None) -> bool:
    expires_ms = caller.credential.expires_ms
    is_expired = expires_ms is not None and expires_ms <= now_ms
    if caller.credential.kind is CredentialKind.CERTIFICATE and rules is not None:
        is_expired |= not principals_in(rules).names(caller.credential.id, caller.principal)
    return is_expired or (caller.principal.tenant, caller.principal.id) in disabled
