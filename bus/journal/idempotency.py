"""Idempotency keys: a client's repeated request finds the run of its first one.

A key is unique per tenant, principal and kind of request, and is valid as long as its run exists. Bodies are compared
by the digest of their canonical JSON.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, Row, bindparam, insert, select

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


def used_before(connection: Connection, principal: Principal, key: IdempotencyKey) -> Row[Any] | None:
    """Return ``run_id``, ``delivered`` and ``control_id`` of an earlier request with this key; None: there was none.

    Raises:
        IDEMPOTENCY_CONFLICT: the key was used with another body.
    """
    row = connection.execute(_FIND, _columns(principal, key)).first()
    if row is None:
        return None
    if row.body_digest != key.body_digest:
        raise IDEMPOTENCY_CONFLICT(key=key.key)
    return row


def remember(
    connection: Connection,
    principal: Principal,
    key: IdempotencyKey,
    run_id: str,
    *,
    delivered: str | None = None,
    control_id: str | None = None,
) -> None:
    """Insert the key with what the answer to the request says, in the transaction that executes the request."""
    values = {"run_id": run_id, "created_ms": epoch_ms(), "delivered": delivered, "control_id": control_id}
    connection.execute(_REMEMBER, _columns(principal, key) | values)


def _columns(principal: Principal, key: IdempotencyKey) -> dict[str, str]:
    return {"tenant": principal.tenant, "principal": principal.id, **asdict(key)}


_k = idempotency_keys.c
_FIND = select(*_k["body_digest", "run_id", "delivered", "control_id"]).where(
    *(_k[name] == bindparam(name) for name in ("tenant", "principal", "method", "path", "key"))
)
_REMEMBER = insert(idempotency_keys).inline()
