"""What makes two requests the same one: a key the client chose, in the scope of who it is and what it asked.

A key holds for as long as the run it led to exists. The body is compared by the digest of its canonical JSON.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, insert, select

from bus.journal.who import Who
from config.clock import epoch_ms
from config.errors import IdempotencyConflict
from config.tables import idempotency_keys


@dataclass(frozen=True, kw_only=True, slots=True)
class IdempotencyKey:
    """What makes two requests the same one."""

    key: str
    method: str
    path: str
    body_digest: str
    """SHA-256 of the body's canonical JSON, hexadecimal."""


def used_before(connection: Connection, who: Who, key: IdempotencyKey) -> str | None:
    """Return the run that this request was about when it was made before, or None when it is new.

    Raises:
        IdempotencyConflict: the key was used with another body.
    """
    its = {"its_tenant": who.tenant, "its_principal": who.principal, "its_method": key.method}
    row = connection.execute(_FIND, its | {"its_path": key.path, "its_key": key.key}).first()
    if row is None:
        return None
    if row.body_digest != key.body_digest:
        raise IdempotencyConflict(key.key)
    return str(row.run_id)


def remember(connection: Connection, who: Who, key: IdempotencyKey, run_id: str) -> None:
    """Write the key down, in the transaction that does what was asked."""
    row = {
        "tenant": who.tenant, "principal": who.principal, "method": key.method, "path": key.path, "key": key.key,
        "body_digest": key.body_digest, "run_id": run_id, "created_ms": epoch_ms(),
    }  # fmt: skip
    connection.execute(_REMEMBER, row)


_k = idempotency_keys.c
_FIND = select(_k.body_digest, _k.run_id).where(
    _k.tenant == bindparam("its_tenant"), _k.principal == bindparam("its_principal"),
    _k.method == bindparam("its_method"), _k.path == bindparam("its_path"), _k.key == bindparam("its_key"),
)  # fmt: skip
_REMEMBER = insert(idempotency_keys).inline()
