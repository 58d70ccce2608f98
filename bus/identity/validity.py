"""Whether callers that were authenticated earlier still would be: open streams and long waits are checked again."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from bus.identity.credentials import keys, sessions
from bus.identity.credentials.certificates import principals_in
from bus.identity.credentials.credential import Caller, CredentialKind
from bus.identity.principals import disabled_among
from config.clock import epoch_ms
from config.database.engine import Database

ENDLESS = frozenset({CredentialKind.NONE, CredentialKind.LOCAL})
"""Kinds of credentials that end with the process only."""


def can_end(caller: Caller) -> bool:
    """Return whether a caller's credential can become invalid, or stand for less, while the process runs."""
    return caller.credential.kind not in ENDLESS


def ended(database: Database, callers: Collection[Caller], rules: Path | None = None) -> frozenset[Caller]:
    """Return the callers whose credential is no longer valid, or stands for other roles or another scope by now.

    ``rules`` is the file that names the principals of client certificates.
    """
    of_keys, of_sessions = (_of_kind(callers, kind) for kind in (CredentialKind.KEY, CredentialKind.SESSION))
    others = [caller for caller in callers if can_end(caller) and caller not in of_keys | of_sessions]
    with database.read() as connection:
        live: list[Caller] = []
        if of_keys:
            live += [key.caller for key in keys.live(connection, _ids(of_keys)).values()]
        if of_sessions:
            live += [session.caller for session in sessions.live(connection, _ids(of_sessions)).values()]
        disabled = disabled_among(connection, {(each.principal.tenant, each.principal.id) for each in others})
    now_ms = epoch_ms()
    gone = (of_keys | of_sessions).difference(live)
    return gone.union(caller for caller in others if _is_over(caller, now_ms, disabled, rules))


def _of_kind(callers: Collection[Caller], kind: CredentialKind) -> frozenset[Caller]:
    return frozenset(caller for caller in callers if caller.credential.kind is kind)


def _ids(callers: Collection[Caller]) -> list[str]:
    return [caller.credential.id for caller in callers]


def _is_over(caller: Caller, now_ms: int, disabled: Collection[tuple[str, str]], rules: Path | None) -> bool:
    expires_ms = caller.credential.expires_ms
    is_expired = expires_ms is not None and expires_ms <= now_ms
    if caller.credential.kind is CredentialKind.CERTIFICATE and rules is not None:
        is_expired |= not principals_in(rules).names(caller.credential.id, caller.principal)
    return is_expired or (caller.principal.tenant, caller.principal.id) in disabled
