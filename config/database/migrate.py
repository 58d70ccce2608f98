"""The schema's version, and the one way it changes."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

from sqlalchemy import Connection, text

from config.database import Database, open_database
from config.errors import SchemaNew, SchemaOld, StateDirUnwritable
from config.patience import patience
from config.private_files import narrow_state_folder, open_private, private_folder
from config.settings import Settings

FOLDER = Path(__file__).parent / "migrations"
HEAD = "0002"
"""The newest revision; a test compares it with the files in migrations/versions."""
_LOCK_KEY = 0x43414C4C
"""Postgres advisory lock held while migrating; SQLite has its own write lock."""


def current_version(database: Database) -> str | None:
    """Return the revision the database is at, or None when it has no schema.

    Raises:
        DatabaseUnreachable: it does not answer.
    """
    query = text("SELECT version_num FROM alembic_version")
    with database.read() as connection:
        if not database.engine.dialect.has_table(connection, "alembic_version"):
            return None
        return connection.execute(query).scalar()


def require_current(database: Database) -> None:
    """Return when the schema is the one this code was written for.

    Raises:
        SchemaOld: ``./callboard migrate`` has to be run first.
        SchemaNew: this code is older than the database.
    """
    found = current_version(database)
    if found is None or found < HEAD:
        raise SchemaOld(found, HEAD)
    if found > HEAD:
        raise SchemaNew(found, HEAD)


def migrate(settings: Settings) -> bool:
    """Bring the database to ``HEAD`` and return whether anything had to be done.

    Several processes may call it at once: the second one waits and finds nothing to do.
    """
    make_folder(settings)
    _make_file(settings)
    database = open_database(settings.database)
    try:
        found = current_version(database)
        if found == HEAD:
            return False
        if found is not None and found > HEAD:
            raise SchemaNew(found, HEAD)
        with patience(math.inf):
            _upgrade(database)
        return True
    finally:
        database.close()


def make_folder(settings: Settings) -> None:
    """Make the state folder, for nobody but its owner; one of an older release is narrowed.

    Raises:
        StateDirExposed: a name of ours in it is a symbolic link.
        StateDirUnwritable: it cannot be made or written to.
    """
    try:
        narrow_state_folder(private_folder(settings.state))
        with TemporaryFile(dir=settings.state):  # has no name, so processes that start at once cannot meet
            pass
    except OSError as wrong:
        raise StateDirUnwritable(
            f"the state folder {settings.state} cannot be written to ({wrong.strerror}); "
            "choose another with --state-dir or CALLBOARD_STATE_DIR."
        ) from wrong


def _make_file(settings: Settings) -> None:
    """SQLite gives the files beside a database the permissions of the database itself."""
    place = settings.state / "callboard.db"
    if settings.database_url is None and not place.exists():
        os.close(open_private(place))


def _upgrade(database: Database) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    with _alone(database) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


@contextmanager
def _alone(database: Database) -> Iterator[Connection]:
    with database.write() as connection:
        if not database.is_sqlite:
            connection.execute(text("SET LOCAL lock_timeout = 0"))  # the second one waits, however long it takes
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
        yield connection
