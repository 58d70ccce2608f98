"""Idempotency keys: a client's repeated request finds the run of its first one.

A key is unique per tenant, principal and kind of request, and is valid as long as its run exists. Bodies are compared
by the digest of their canonical JSON.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from sqlalchemy import Connection, bindparam, insert, select

from bus.journal.errors import IDEMPOTENCY_CONFLICT
from config.clock import epoch_ms
from config.database.tables import idempotency_keys
from config.identity.principal import Principal
from config.text.stored_texts import stored_name


@dataclass(frozen=True, kw_only=True, slots=True)
class IdempotencyKey:
    """A client's key for one request, with the digest of the request's body; each field is named like its column."""

    key: str
    method: str
    path: str
    body_digest: str
    """SHA-256 of the body's canonical JSON, hexadecimal."""

    def __post_init__(self) -> None:
        """Raise ``BadRequest`` for a key with a secret: it is stored as the client sent it."""
        stored_name(self.key, "the Idempotency-Key")


def used_before(connection: Connection, principal: Principal, key: IdempotencyKey) -> str | None:
    """Return the run of an earlier request with this key, or None where there was none.

    Raises:
        IDEMPOTENCY_CONFLICT: the key was used with another body.
    """
    row = connection.execute(_FIND, _columns(principal, key)).first()
    if row is None:
        return None
    if row.body_digest != key.body_digest:
        raise IDEMPOTENCY_CONFLICT(key=key.key)
    return str(row.run_id)


def remember(connection: Connection, principal: Principal, key: IdempotencyKey, run_id: str) -> None:
    """Insert the key, in the transaction that executes the request."""
    connection.execute(_REMEMBER, _columns(principal, key) | {"run_id": run_id, "created_ms": epoch_ms()})


def _columns(principal: Principal, key: IdempotencyKey) -> dict[str, str]:
    return {"tenant": principal.tenant, "principal": principal.id, **asdict(key)}


_k = idempotency_keys.c
_FIND = select(_k.body_digest, _k.run_id).where(
    *(_k[name] == bindparam(name) for name in ("tenant", "principal", "method", "path", "key"))
)
_REMEMBER = insert(idempotency_keys).inline()
