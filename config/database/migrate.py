"""The schema's version, and its migration."""

from __future__ import annotations

import math
import os
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryFile

from sqlalchemy import text

from config.database.engine import Database, open_database
from config.database.errors import INSTALLATION_MISSING, STATE_DIR_UNWRITABLE, SchemaNew, SchemaOld
from config.database.timeouts import patience
from config.private_files import narrow_state_folder, open_private, private_folder
from config.settings import Settings

FOLDER = Path(__file__).parent / "migrations"
HEAD = "0048"
"""The newest revision; a test compares it with the files in migrations/versions."""
SQLITE_WAIT_MS = 60_000
"""How long a migration waits for the writers of a SQLite file; another one on a busy machine takes many seconds."""
_LOCK_KEY = 0x43414C4C
"""Postgres advisory lock held while migrating; SQLite has its own write lock."""


def current_version(database: Database) -> str | None:
    """Return the database's revision, or None if it has no schema."""
    query = text("SELECT version_num FROM alembic_version")
    with database.read() as connection:
        if not database.engine.dialect.has_table(connection, "alembic_version"):
            return None
        return connection.execute(query).scalar()


def require_current(database: Database) -> None:
    """Return if the schema is the one this code needs.

    Raises:
        SchemaOld: ``./callboard migrate`` has to be run first.
        SchemaNew: this code is older than the database.
    """
    version = current_version(database)
    if version is None or version < HEAD:
        problem = f"is {version or 'missing'} and this code needs {HEAD}; run `./callboard migrate`."
        raise SchemaOld(f"the database's schema {problem}", found=version, wanted=HEAD)
    if version > HEAD:
        problem = f"{version} is newer than this code knows ({HEAD}); update the code on this machine."
        raise SchemaNew(f"the database's schema {problem}", found=version, wanted=HEAD)


def require_schema(settings: Settings) -> None:
    """Do the same as ``require_current``, on a temporary connection."""
    with closing(open_database(settings.database)) as database:
        require_current(database)


def migrate(settings: Settings) -> bool:
    """Bring the database to ``HEAD`` and return whether its schema changed.

    Several processes may call it at once: the second one waits and changes nothing.
    """
    make_folder(settings)
    file = _default_file(settings)
    if settings.database_url is None and not file.exists():
        os.close(open_private(file))  # SQLite copies its permissions to the files beside it
    with closing(open_database(settings.database)) as database:
        with suppress(SchemaOld):
            require_current(database)
            return False
        with patience(math.inf):
            upgrade(database)
        return True


def make_folder(settings: Settings) -> None:
    """Create the state folder for its owner alone, or narrow the permissions of an existing one.

    Raises:
        STATE_DIR_EXPOSED: a file of ours in it is a symbolic link.
        STATE_DIR_UNWRITABLE: it cannot be created or written to.
    """
    try:
        narrow_state_folder(private_folder(settings.state))
        with TemporaryFile(dir=settings.state):  # has no name, so concurrent processes cannot collide
            pass
    except OSError as error:
        raise STATE_DIR_UNWRITABLE(
            f"the state folder {settings.state} cannot be written to ({error.strerror}); "
            "choose another with --state-dir or CALLBOARD_STATE_DIR."
        ) from error


def require_installation(settings: Settings) -> None:
    """Raise ``INSTALLATION_MISSING`` if the default database does not exist; a misspelt folder leaves no trace."""
    if settings.database_url is None and not _default_file(settings).exists():
        raise INSTALLATION_MISSING(
            f"there is no installation in {settings.state}: it has no callboard.db. Correct --state-dir (or "
            "CALLBOARD_STATE_DIR), or create one there with `./callboard up` or `./callboard run`.",
            state_dir=str(settings.state),
        )


def _default_file(settings: Settings) -> Path:
    return settings.state / "callboard.db"


def upgrade(database: Database) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    with database.write(wait_ms=SQLITE_WAIT_MS) as connection:
        if not database.is_sqlite:
            # A concurrent migration waits, however long it takes.
            connection.execute(text("SET LOCAL lock_timeout = 0"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
