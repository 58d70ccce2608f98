"""Open what a command works on: its runner, with Redis if one answers, else on SQL alone; or the database only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager

from agents.runner import Runner
from config.database.engine import Database, open_database
from config.database.migrate import migrate, require_current, require_installation
from config.settings import Settings
from config.tracing import parent_of_environment, trace_of_environment, traced


@contextmanager
def open_runner(settings: Settings, *, create: bool = False) -> Iterator[Runner]:
    """Yield this process's runner, and close it at the end; what it starts continues the caller's trace, if any.

    Raises:
        INSTALLATION_MISSING: the default database does not exist; only ``create`` creates it.
    """
    _prepare(settings, create=create)
    parent_span = parent_of_environment(os.environ)
    with traced(*trace_of_environment(os.environ), parent_span=parent_span), closing(Runner.open(settings)) as runner:
        yield runner


@contextmanager
def open_database_of(settings: Settings, *, create: bool = False) -> Iterator[Database]:
    """Yield the database, with the schema this code needs, and close it at the end; raises as ``open_runner``."""
    _prepare(settings, create=create)
    with closing(open_database(settings.database)) as database:
        require_current(database)
        yield database


def _prepare(settings: Settings, *, create: bool) -> None:
    if not create:
        require_installation(settings)
    if settings.database_url is None:
        migrate(settings)
