"""Secrets that all processes of a deployment share through its database."""

from __future__ import annotations

import secrets as randomness
from contextlib import suppress

from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError

from config.clock import epoch_ms
from config.database.engine import Database
from config.database.tables import secrets
from config.redaction import register_secrets

SECRET_BYTES = 32


def shared_secret(database: Database, name: str) -> str:
    """Return the secret of that name, the same in every process: 64 hexadecimal digits.

    Raises:
        DatabaseUnreachable, DatabaseBusy, DatabaseReadOnly, DatabaseFull: it cannot be read, or not be made.
    """
    secret = known_secret(database, name)
    if secret is None:
        row = {"name": name, "value": randomness.token_hex(SECRET_BYTES), "created_ms": epoch_ms()}
        with suppress(IntegrityError), database.write() as connection:  # another process may be quicker
            connection.execute(insert(secrets), row)
        secret = known_secret(database, name)
    assert secret is not None
    register_secrets([secret])
    return secret


def known_secret(database: Database, name: str) -> str | None:
    """Return the secret of that name; None: no process has made it. Makes none, so that a reader changes nothing."""
    with database.read() as connection:
        return connection.execute(select(secrets.c.value).where(secrets.c.name == name)).scalar()
