"""Commits of a run's writer that go wrong, as a database's own: nothing kept, only the reply lost, or for good."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from typing import Any, Literal

import pytest

from bus.journal.actors import owner as owners
from bus.journal.log import writer as writers
from config.database.engine import Database

Fault = Literal["busy", "away", "reply_lost", "damaged", "damaged_behind"]
"""``busy``: not committed, try again. ``away``: not committed, and no reply. ``reply_lost``: committed, and no reply.
``damaged``: not committed, and trying again is no use. ``damaged_behind``: the same is said, and yet it was
committed."""
_NAMES: dict[Fault, str] = {
    "busy": "SQLITE_BUSY",
    "away": "SQLITE_IOERR",
    "reply_lost": "SQLITE_IOERR",
    "damaged": "SQLITE_CORRUPT",
    "damaged_behind": "SQLITE_CORRUPT",
}


class FaultyCommits:
    """Lets commits of writers fail as ``draw`` says, or other commits by their failpoint; the rest is left alone."""

    def __init__(
        self,
        database: Database,
        monkeypatch: pytest.MonkeyPatch,
        draw: Callable[[], Fault | None],
        at: str = "commit-before",
    ) -> None:
        self._draw, self._at = draw, at
        self._thread = threading.local()
        self._commit = database.engine.dialect.do_commit
        monkeypatch.setattr(database.engine.dialect, "do_commit", self._do)
        for module in (writers, owners):
            monkeypatch.setattr(module, "failpoint", self._pass)
        monkeypatch.setattr(writers, "PAUSES_S", (0.001,))

    def _pass(self, stage: str) -> None:
        """Stand where a transaction is about to be committed, on its thread."""
        if stage == self._at:
            self._thread.fault = self._draw()

    def _do(self, connection: Any) -> None:
        fault: Fault | None = getattr(self._thread, "fault", None)
        self._thread.fault = None
        if fault in ("busy", "away", "damaged"):
            raise _error(fault)
        self._commit(connection)
        if fault is not None:
            raise _error(fault)


def _error(fault: Fault) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(fault)
    error.sqlite_errorname = _NAMES[fault]
    return error
