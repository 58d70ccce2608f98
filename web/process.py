"""What one web process needs, opened by its first request: never at import, never before a fork."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from flask import Flask, current_app

from bus.journal.write_probe import WriteProbe
from config.database import open_database
from config.errors import DatabaseBusy, Overloaded
from config.migrate import require_current
from config.settings import Settings
from web.hub import Hub

if TYPE_CHECKING:
    from agents.runner import Runner
    from bus.journal.journal import Journal

OPENING_S = 1.5
"""How long a request waits for another one that opens the database; it may have to try itself then."""
MAX_WAITING = 8
"""Requests that may hold a thread while they wait for a run; the others are for those that do not wait."""
MAX_LARGE = 2
"""Large bodies decoded, and pages read, at once: each takes some ten times its size for a moment."""
LARGE_WAIT_S = 2.0


class WebProcess:
    """The runner and the hub behind the doors."""

    def __init__(self, settings: Settings, runner: Runner | None = None) -> None:
        self.settings = settings
        self._given = runner
        self._opening = threading.Lock()
        self._runner: Runner | None = None
        self._hub: Hub | None = None
        self._probe: WriteProbe | None = None
        self._pid = 0
        self._waiting = threading.BoundedSemaphore(MAX_WAITING)
        self._large = threading.BoundedSemaphore(MAX_LARGE)

    @property
    def runner(self) -> Runner:
        """What runs are started with."""
        return self._open()[0]

    @property
    def hub(self) -> Hub:
        """What streams are served by."""
        return self._open()[1]

    @property
    def journal(self) -> Journal:
        """What runs are read from."""
        return self.runner.journal

    def require_ready(self) -> None:
        """Everything is open and the database has the schema this code needs; tried again until it is so.

        Raises:
            SchemaOld, SchemaNew: it has another.
            DatabaseUnreachable: it does not answer.
        """
        self._open()

    def require_writes(self) -> None:
        """Everything is open, and the database took a write within the last second.

        Raises:
            CallboardError: it does not; the error says why.
        """
        self._open()
        assert self._probe is not None
        self._probe.require()

    def begin_waiting(self) -> None:
        """This request may hold its thread; call ``end_waiting`` behind it.

        Raises:
            Overloaded: too many do already.
        """
        if not self._waiting.acquire(blocking=False):
            raise Overloaded(
                f"{MAX_WAITING} requests wait for their runs already; start the run detached and watch its events, or "
                "try again in a moment.",
                retry_after_s=5,
            )

    def end_waiting(self) -> None:
        """Let another request wait."""
        self._waiting.release()

    @contextmanager
    def large_work(self) -> Iterator[None]:
        """Let a few requests at a time do what takes much memory.

        Raises:
            Overloaded: others did for two seconds.
        """
        if not self._large.acquire(timeout=LARGE_WAIT_S):
            raise Overloaded("other requests read or send a lot just now; try again in a moment.", retry_after_s=2)
        try:
            yield
        finally:
            self._large.release()

    def close(self) -> None:
        """Send the viewers away. The runner is closed by whoever gave it."""
        if self._hub is not None:
            self._hub.close()
        if self._runner is not None and self._given is None:
            self._runner.close()
        self._runner = self._hub = None

    def _open(self) -> tuple[Runner, Hub]:
        with self._alone():
            if self._runner is None or self._hub is None or self._pid != os.getpid():
                require_schema(self.settings)
                self._runner = self._given or _open_runner(self.settings)
                # What fell to nobody is seen to by whoever is alive, web processes too.
                self._runner.journal.relay.start()
                self._runner.journal.reaper.start()
                self._hub = Hub(self._runner.journal)
                self._probe = WriteProbe(self._runner.journal.database)
                self._pid = os.getpid()
            return self._runner, self._hub

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let one request open what all need. A database far away may take seconds to not answer each of them."""
        if not self._opening.acquire(timeout=OPENING_S):
            raise DatabaseBusy("other requests are opening the database still; try again in a moment.")
        try:
            yield
        finally:
            self._opening.release()


def require_schema(settings: Settings) -> None:
    """The database has the schema this code needs; what was opened to see that is closed again."""
    database = open_database(settings.database)
    try:
        require_current(database)
    finally:
        database.close()


def _open_runner(settings: Settings) -> Runner:
    from agents.runner import Runner

    return Runner.open(settings)


def install(app: Flask, process: WebProcess) -> None:
    """``here()`` finds this process's things in requests to ``app``."""
    app.extensions["callboard"] = process


def here() -> WebProcess:
    """Return the process that answers this request."""
    return cast(WebProcess, current_app.extensions["callboard"])
