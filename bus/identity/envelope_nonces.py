"""The nonces of signed envelopes in SQL: each is used once, by whichever process of the deployment commits first."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import BigInteger, ColumnElement, Connection, String, delete, insert, literal, select, tuple_
from sqlalchemy.exc import IntegrityError

from bus.identity.envelope import CallEnvelope
from bus.identity.errors import EnvelopeRefused
from config.database.engine import WALL_MS, Database
from config.database.tables import envelope_nonces

SLACK_MS = 3_600_000
"""How long a nonce is kept after its envelope has expired: the database's clock may be set back."""
BATCH = 1000
"""Rows that are deleted in one transaction."""


class SqlNonces:
    """The nonces of a deployment, in its database."""

    def __init__(self, open_database: Callable[[], Database]) -> None:
        self._open_database = open_database

    def use_up(self, envelope: CallEnvelope) -> None:
        """Return once it is committed that the envelope was used.

        The row is added only while the envelope has not expired by the database's clock. So a process whose clock is
        slow cannot accept an envelope again whose row was deleted.

        Raises:
            EnvelopeRefused: it was used before, or has expired.
            DatabaseUnreachable, DatabaseBusy, DatabaseReadOnly, DatabaseFull: the row cannot be written.
        """
        expires = literal(envelope.expires_ms, BigInteger)
        row = select(literal(envelope.key_id, String), literal(envelope.nonce, String), expires)
        adding = insert(envelope_nonces).from_select(["key_id", "nonce", "expires_ms"], row.where(expires > WALL_MS))
        try:
            with self._open_database().write() as connection:
                is_added = connection.execute(adding.returning(envelope_nonces.c.nonce)).first() is not None
        except IntegrityError as error:
            raise EnvelopeRefused("used") from error
        if not is_added:
            raise EnvelopeRefused("expired")


def are_expired(connection: Connection, now_ms: int) -> bool:
    """Return whether there are nonces that no verifier needs any more."""
    return connection.execute(select(envelope_nonces.c.nonce).where(_is_expired(now_ms)).limit(1)).first() is not None


def delete_expired(connection: Connection, now_ms: int) -> int:
    """Delete a batch of such nonces, and return their number."""
    c = envelope_nonces.c
    old = select(c.key_id, c.nonce).where(_is_expired(now_ms)).order_by(c.expires_ms)
    nonce_rows = connection.execute(old.limit(BATCH).with_for_update(skip_locked=True)).all()
    if nonce_rows:
        rows = [(row.key_id, row.nonce) for row in nonce_rows]
        connection.execute(delete(envelope_nonces).where(tuple_(c.key_id, c.nonce).in_(rows)))
    return len(nonce_rows)


def _is_expired(now_ms: int) -> ColumnElement[bool]:
    return envelope_nonces.c.expires_ms < now_ms - SLACK_MS
