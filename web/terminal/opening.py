"""How a command reaches the runs: with the Redis that is there, else on SQL alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from agents.runner import Runner
from config.migrate import migrate
from config.settings import Settings
from web.terminal import options


@contextmanager
def open_runner(**flags: object) -> Iterator[Runner]:
    """Yield this process's runner, and close it at the end.

    The default database is made if it is not there, so that the first command of a newcomer may be any of them.
    """
    settings = options.apply(**flags)
    if _is_ours(settings):
        migrate(settings)
    runner = Runner.open(settings)
    try:
        yield runner
    finally:
        runner.close()


def _is_ours(settings: Settings) -> bool:
    return settings.database_url is None
