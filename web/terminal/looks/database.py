"""The database: it answers and has this code's schema."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from config.database import Database, open_database
from config.errors import DatabaseUnreachable, SchemaNew, SchemaOld
from config.migrate import HEAD, current_version, require_current
from config.settings import Settings
from web.terminal.looks.finding import Found


def look_at_database(settings: Settings) -> Found:
    """Yield whether it can be used."""
    database = open_database(settings.database)
    try:
        if current_version(database) is None:
            yield "warn", "has no schema yet; `./callboard up` or `./callboard migrate` makes it"
            return
        require_current(database)
        yield "ok", f"{database.engine.dialect.name} answers, schema {HEAD}"
    finally:
        database.close()


@contextmanager
def usable_database(settings: Settings) -> Iterator[Database | None]:
    """Yield the database, or None where the look above says already why it cannot be used."""
    database = open_database(settings.database)
    try:
        try:
            require_current(database)
        except (DatabaseUnreachable, SchemaOld, SchemaNew):
            yield None
            return
        yield database
    finally:
        database.close()
