"""What readers do with runs: follow them, read pages of their logs, and list them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, suppress
from queue import Empty, SimpleQueue
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from bus.errors import LOOP_BLOCKED
from bus.journal.live.hotlog import HotLog
from bus.journal.live.reader import Reader, with_live
from bus.journal.log.events import last_committed, log_page
from bus.journal.log.line import Line
from bus.journal.queries.runs import Runs
from bus.journal.queries.threads import Threads
from bus.journal.records.definition_store import read_pinned
from bus.journal.records.on_disconnect import note_viewer
from bus.journal.states.codes import RunStatus
from bus.loop import ProcessLoop
from config.database.engine import Database
from config.database.errors import DatabaseBusy, DatabaseUnreachable

P = ParamSpec("P")
T = TypeVar("T")


class Readers:
    """Every run's log, from any process; ``runs`` and ``threads`` answer questions about them, and remove them."""

    def __init__(self, database: Database, loop: ProcessLoop, hot_log: HotLog) -> None:
        self._database = database
        self._loop = loop
        self._hot_log = hot_log
        self.runs = Runs(database)
        self.threads = Threads(database)

    def recorded_definition(self, digest: str) -> str | None:
        """Return the definition with this digest that a run was accepted with, as JSON; None where it is not kept."""
        return self._read(read_pinned, digest)

    def follow(
        self, tenant: str, run_id: str, thread_id: str, cursor: int, *, read_first: bool = True
    ) -> AsyncGenerator[list[Line], None]:
        """Yield the run's events after ``cursor``, in order, until its end; to be iterated on the loop.

        ``tenant`` is whose run it is. With ``read_first=False`` the reader skips its first query: the caller has just
        read SQL up to ``cursor``.
        """
        sources = self._database, self._hot_log, self._loop
        return Reader(tenant, run_id, thread_id, cursor, *sources, read_first=read_first).batches()

    def follow_blocking(self, tenant: str, run_id: str, thread_id: str, cursor: int) -> Iterator[Line]:
        """Yield the run's events to a plain thread; see ``follow``.

        Raises:
            LOOP_BLOCKED: called on the loop's own thread.
            OpenedBeforeFork: the loop that brings the events is in the process this one was forked from.
        """
        if self._loop.is_loop_thread():
            raise LOOP_BLOCKED(what="reading events")
        lines: SimpleQueue[list[Line]] = SimpleQueue()
        pouring = self._loop.submit(_pour(self.follow(tenant, run_id, thread_id, cursor), lines.put))
        pouring.add_done_callback(lambda _: lines.put([]))  # so that this thread sees that it is done
        try:
            while not (pouring.done() and lines.empty()):
                self._loop.require_own_process()
                batch: list[Line] = []
                with suppress(Empty):  # waits in slices, so that Ctrl-C is handled on every platform
                    batch = lines.get(timeout=0.5)
                yield from batch
            pouring.result()
        finally:
            pouring.cancel()

    async def wait(self, tenant: str, run_id: str, thread_id: str) -> Line:
        """Wait for the run's last event and return it; most of the earlier events are not read."""
        try:
            cursor = await self._loop.read(self._read, last_committed, run_id)
        except (DatabaseBusy, DatabaseUnreachable):
            cursor = 0  # a later cursor only saves reading
        async with aclosing(self.follow(tenant, run_id, thread_id, cursor)) as batches:
            async for batch in batches:
                if batch[-1].is_end:
                    return batch[-1]
        raise AssertionError("a log ends with its end")

    async def wait_until_idle(self, tenant: str, run_id: str, thread_id: str) -> None:
        """Return when the run has ended, or waits for a person or for other code."""
        cursor = await self._loop.read(self._read, last_committed, run_id)
        if await self._loop.read(self.runs.status, run_id) not in (RunStatus.QUEUED, RunStatus.RUNNING):
            return  # read after the cursor: what changes from now on is in the log behind it
        async with aclosing(self.follow(tenant, run_id, thread_id, cursor)) as batches:
            async for batch in batches:
                if any(line.is_end or line.is_waiting for line in batch):
                    return

    def note_viewer(self, run_id: str) -> None:
        """Count the run's time without viewers anew: a client reads its log, without following it."""
        note_viewer(self._database, run_id)

    def page(self, run_id: str, thread_id: str, cursor: int) -> tuple[list[Line], bool]:
        """Return a page of SQL's events after ``cursor`` (500 rows or 1 MB), and whether there may be more."""
        return self._read(log_page, run_id, thread_id, cursor)

    async def with_live(
        self, tenant: str, run_id: str, cursor: int, stored: list[Line], *, has_more: bool
    ) -> list[Line]:
        """Return a page of SQL's events followed by the live ones; see ``bus.journal.live.reader``."""
        return await with_live(self._hot_log, tenant, run_id, cursor, stored, has_more=has_more)

    def _read(self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        with self._database.read() as connection:
            return function(connection, *args, **kwargs)


async def _pour(batches: AsyncGenerator[list[Line], None], put: Callable[[list[Line]], None]) -> None:
    async with aclosing(batches):
        async for batch in batches:
            put(batch)
