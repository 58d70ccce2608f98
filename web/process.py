"""The state of one web process, opened by its first request: never at import, never before a fork."""

from __future__ import annotations

import asyncio
import math
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

from flask import current_app

from bus.identity.audit.recording import note_settings
from config.database.errors import DatabaseBusy
from config.database.migrate import require_schema
from config.database.timeouts import left_s, not_counted
from config.errors import CallboardError
from config.fresh import FreshFor
from config.settings import Settings
from web.doctor.server_checks import ServerDoctor
from web.errors import Overloaded
from web.feeds.hub import Hub
from web.request_counts import RequestCounts

if TYPE_CHECKING:
    from agents.governance.policy.policy_yaml import PolicySource
    from agents.runner import Runner
    from bus.journal import Journal
    from web.oidc.provider import Provider


T = TypeVar("T")

OPENING_S = 1.5
"""How long a request waits for another one that opens the database."""
MAX_WAITING = 8
"""Requests that may hold a thread while they wait for a run's end; the other threads serve short requests. With
authentication, one tenant's take half of these at most."""
MAX_LARGE = 2
"""Concurrent large bodies and pages: each temporarily needs about ten times its size."""
LARGE_WAIT_S = 2.0
MAX_LARGE_WAITING = 6
"""Requests that may hold a thread while they wait for one of those slots."""
TOO_MUCH = "other requests read or send a lot just now; try again in a moment."
MAX_MEASURED = 2
"""Concurrent measurements of a run's size: SQLite before 3.43 loads a text to measure it."""


class WebProcess:
    """The runner and the hub of this web process."""

    def __init__(self, settings: Settings, runner: Runner | None = None) -> None:
        self.settings = settings
        self._given = runner
        self._opening = threading.Lock()
        self._runner: Runner | None = None
        self._hub: Hub | None = None
        self._pid = 0
        self._waiting = threading.BoundedSemaphore(MAX_WAITING)
        self._waiting_of: dict[str, threading.Semaphore] = {}
        self._large = threading.BoundedSemaphore(MAX_LARGE)
        self._large_admitted = threading.BoundedSemaphore(MAX_LARGE + MAX_LARGE_WAITING)
        self._measured = threading.BoundedSemaphore(MAX_MEASURED)
        self.strangers_health = FreshFor[tuple[dict[str, Any], int]]()
        self.strangers_ready = FreshFor[bool]()
        self.doctor = ServerDoctor()
        self.requests = RequestCounts()
        self._at_close: list[Callable[[], None]] = []

    @property
    def runner(self) -> Runner:
        """The runner that accepts the runs of this process's requests."""
        return self.require_ready()[0]

    @property
    def hub(self) -> Hub:
        """The hub that serves this process's streams."""
        return self.require_ready()[1]

    @property
    def journal(self) -> Journal:
        """The journal that this process reads runs from."""
        return self.runner.journal

    def require_ready(self) -> tuple[Runner, Hub]:
        """Return the runner and the hub, opened if necessary, if the database has the schema this code needs.

        Raises:
            SchemaOld, SchemaNew: it has another.
            DatabaseUnreachable: it does not answer.
        """
        runner, hub = self._runner, self._hub
        if runner is not None and hub is not None and self._pid == os.getpid():
            return runner, hub
        # One request at a time opens the process; an unreachable database would block each of them for seconds.
        busy = DatabaseBusy("other requests are opening the database still; try again in a moment.")
        with _holding(self._opening, OPENING_S, busy):
            if self._runner is None or self._hub is None or self._pid != os.getpid():
                from agents.runner import Runner

                require_schema(self.settings)
                self._runner = self._given or Runner.open(self.settings, inline=False)
                # Web processes run relay and reaper too, so that unowned work is found without a worker.
                self._runner.journal.live.relay.start()
                self._runner.journal.owner.reaper.start()
                self._hub = Hub(self._runner.journal)
                if self._given is None:  # else this process is a worker too, which records them
                    journal = self._runner.journal
                    journal.loop.submit(journal.loop.write(note_settings, journal.database, self.settings, "web"))
                self._pid = os.getpid()
            return self._runner, self._hub

    @cached_property
    def provider(self) -> Provider:
        """The identity provider, as this process knows it."""
        from web.oidc.provider import Provider  # Authlib and its HTTP client, where people sign in

        return Provider(self.settings)

    @cached_property
    def policies(self) -> PolicySource:
        """The policy's files, as this process reads them."""
        from agents.governance.policy.policy_yaml import PolicySource  # compiles conditions, where people look at it

        return PolicySource(self.settings.policy_places)

    def wait(self, tenant: str, wait_s: float, work: Callable[[], Awaitable[T]]) -> T | None:
        """Return the result of ``work`` on the loop, or None if it takes longer than ``wait_s``.

        Raises:
            Overloaded: too many requests, or too many of the tenant, wait already.
        """
        if wait_s <= 0:
            return None
        share = MAX_WAITING if self.settings.auth == "none" else MAX_WAITING // 2
        its = self._waiting_of.setdefault(tenant, threading.BoundedSemaphore(share))
        busy = Overloaded(
            f"{MAX_WAITING} requests, or {share} of this tenant, wait for their runs already; start the run detached "
            "and watch its events, or try again in a moment.",
            retry_after_s=5,
        )
        with _holding(its, 0, busy), _holding(self._waiting, 0, busy), not_counted():
            return self.journal.loop.run(_within(wait_s, work))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of ``work`` on the loop.

        Raises:
            Overloaded: it takes longer than the request may.
        """
        return self.journal.loop.run(_in_time(left_s(), work))

    @contextmanager
    def large_work(self) -> Iterator[None]:
        """Limit the concurrent requests that need much memory.

        Raises:
            Overloaded: there was no slot for two seconds, or several requests wait for one; those behind them would
                hold the threads that short requests need.
        """
        busy = Overloaded(TOO_MUCH, retry_after_s=2)
        with _holding(self._large_admitted, 0, busy), _holding(self._large, LARGE_WAIT_S, busy):
            yield

    def measuring(self) -> AbstractContextManager[None]:
        """Limit the concurrent requests that measure a size, in the same way, separately from large work."""
        return _holding(self._measured, LARGE_WAIT_S, Overloaded(TOO_MUCH, retry_after_s=2))

    def end_streams(self) -> None:
        """Disconnect the viewers, if this process has served any; before it ends."""
        if self._hub is not None and self._pid == os.getpid():
            self._hub.close()

    def at_close(self, close: Callable[[], None]) -> None:
        """Call ``close`` when this process closes, while its journal is still open."""
        self._at_close.append(close)

    def close(self) -> None:
        """Disconnect the viewers, and close the runner unless the caller passed it."""
        for close in self._at_close:
            close()
        if self._hub is not None:
            self._hub.close()
        if self._runner is not None and self._given is None:
            self._runner.close()
        self._runner = self._hub = None


@contextmanager
def _holding(lock: threading.Lock | threading.Semaphore, timeout_s: float, busy: CallboardError) -> Iterator[None]:
    """Hold the lock, or raise ``busy`` if it is not free in time, or in the time that the request has left."""
    if not lock.acquire(timeout=min(timeout_s, left_s())):
        raise busy
    try:
        yield
    finally:
        lock.release()


async def _within(wait_s: float, work: Callable[[], Awaitable[T]]) -> T | None:
    try:
        async with asyncio.timeout(wait_s):
            return await work()
    except TimeoutError:
        return None


async def _in_time(limit_s: float, work: Coroutine[Any, Any, T]) -> T:
    try:
        async with asyncio.timeout(None if math.isinf(limit_s) else limit_s):
            return await work
    except TimeoutError as error:
        raise Overloaded("the request took too long (CALLBOARD_REQUEST_TIMEOUT_S); try again in a moment.") from error


def current_process() -> WebProcess:
    """Return the process that answers this request; ``create_app`` keeps it with the application."""
    return cast(WebProcess, current_app.extensions["callboard"])
