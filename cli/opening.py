"""Open a command's runner, with Redis if one answers, else on SQL alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from agents.runner import Runner
from config.database.migrate import migrate, require_installation
from config.settings import Settings


@contextmanager
def open_runner(settings: Settings, *, create: bool = False) -> Iterator[Runner]:
    """Yield this process's runner, and close it at the end.

    Raises:
        InstallationMissing: the default database does not exist; only ``create`` creates it.
    """
    if not create:
        require_installation(settings)
    if settings.database_url is None:
        migrate(settings)
    with closing(Runner.open(settings)) as runner:
        yield runner
