"""Check of the database: it answers and has this code's schema."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from cli.doctor.disk import sqlite_file
from cli.doctor.finding import Verdicts, ok, warn
from config.database.engine import Database, open_database
from config.database.errors import DatabaseUnreachable, SchemaNew, SchemaOld
from config.database.migrate import HEAD, current_version, require_current
from config.settings import Settings

NO_SCHEMA = "has no schema yet; `./callboard up` or `./callboard migrate` makes it"


def check_database(settings: Settings) -> Verdicts:
    """Yield whether the database can be used."""
    with closing(open_database(settings.database)) as database:
        if not _is_there(settings) or current_version(database) is None:
            yield warn(NO_SCHEMA)
            return
        require_current(database)
        yield ok(f"{database.engine.dialect.name} answers, schema {HEAD}")


@contextmanager
def usable_database(settings: Settings) -> Iterator[Database | None]:
    """Yield the database, or None if it cannot be used, which ``check_database`` reports."""
    with closing(open_database(settings.database)) as database:
        yield database if _is_there(settings) and _is_current(database) else None


def skipped_check(settings: Settings) -> Verdicts:
    """Yield that the check was skipped because the database is unusable; nothing if the database does not exist yet."""
    if _is_there(settings):
        yield warn("could not be checked, because the database above cannot be used")


def _is_current(database: Database) -> bool:
    try:
        require_current(database)
    except (DatabaseUnreachable, SchemaOld, SchemaNew):
        return False
    return True


def _is_there(settings: Settings) -> bool:
    """Return whether the database exists: SQLite creates a missing file, and the doctor must not."""
    file = sqlite_file(settings)
    return file is None or file.exists()
