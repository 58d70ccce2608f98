"""How a look is taken, and workers that say that they are alive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bus.journal.stores import WorkerRow, Workers
from config.database.engine import Database, open_database
from config.settings import Settings
from config.settings.project import own_version
from web.doctor import Verdicts


def verdicts(findings: Verdicts) -> list[str]:
    return [verdict for verdict, _ in findings]


def only(findings: Verdicts) -> tuple[str, str]:
    """Return the one thing that was found."""
    (finding,) = findings
    return finding


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    opened = open_database(settings.database)
    yield opened
    opened.close()


@pytest.fixture
def alive(database: Database, settings: Settings) -> Callable[..., None]:
    """Have a worker say that it is alive."""

    def say(name: str = "own_1", **fields: Any) -> None:
        defaults: dict[str, Any] = {
            "host": "here",
            "pid": 7,
            "pool": "threads",
            "slots": 9,
            "busy": 0,
            "queue": settings.queue,
            "queues": (settings.queue,),
            "version": own_version(),
        }
        Workers(database).renew(WorkerRow(id=name, **(defaults | fields)))

    return say
