"""Check of the database: it answers and has this code's schema."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import wraps

from cli.doctor import Check, Verdicts, ok, warn
from cli.doctor.disk import sqlite_file
from config.database.engine import Database, open_database
from config.database.errors import DatabaseUnreachable, SchemaNew, SchemaOld
from config.database.migrate import HEAD, current_version, require_current
from config.settings import Settings


def check_database(settings: Settings) -> Verdicts:
    """Yield whether the database can be used."""
    with closing(open_database(settings.database)) as database:
        if not is_there(settings) or current_version(database) is None:
            yield warn("has no schema yet; `./callboard up` or `./callboard migrate` makes it")
        else:
            require_current(database)
            yield ok(f"{database.engine.dialect.name} answers, schema {HEAD}")


def reading_database(check: Callable[[Settings, Database], Verdicts]) -> Check:
    """Return the check with the database as its second argument.

    It is skipped without a word if the database does not exist yet, and with a warning if it cannot be used.
    """

    @wraps(check)
    def checked(settings: Settings) -> Verdicts:
        if not is_there(settings):
            return
        with closing(open_database(settings.database)) as database:
            try:
                require_current(database)
            except (DatabaseUnreachable, SchemaOld, SchemaNew):
                yield warn("could not be checked, because the database above cannot be used")
            else:
                yield from check(settings, database)

    return checked


def is_there(settings: Settings) -> bool:
    """Return whether the database exists: SQLite creates a missing file, and the doctor must not."""
    file = sqlite_file(settings)
    return file is None or file.exists()
