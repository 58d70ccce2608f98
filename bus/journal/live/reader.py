"""The one reader of a run's log: SQL and the hot log merged by number, without gaps or duplicates."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from bus.journal.errors import RunUnknown
from bus.journal.live.hotlog import HotLog
from bus.journal.log.events import log_page, require_run
from bus.journal.log.line import Line
from bus.journal.records.on_disconnect import FIRST_NOTE_S, note_viewer
from bus.loop import ProcessLoop
from config.database.engine import Database
from config.errors import CallboardError

GAP_S = 1.0
"""How long a reader waits on a gap before it queries SQL."""
IDLE_S = 1.5
"""How long a reader gets no live event before it queries SQL, in case Redis lost some."""
POLL_S = 0.7
"""How often it polls SQL while no live events arrive. Writers seal each second then, so that a viewer gets a piece at
most 2.5 s late."""
LIVE_READ_S = 0.3
"""How long it waits for the hot log's answer; a later answer is merged when it arrives."""


class Merge:
    """Merges events of two sources by number, without I/O: a line is returned once all its predecessors were."""

    def __init__(self, cursor: int) -> None:
        self.last = cursor
        self._early: dict[int, Line] = {}
        self._declared: list[tuple[int, int]] = []

    @property
    def has_gap(self) -> bool:
        """Whether a line waits for numbers before it."""
        return bool(self._early)

    def offer(self, lines: list[Line]) -> list[Line]:
        """Take lines in any order, duplicates included, and return those that can be delivered now, in order."""
        if not self._early and len(lines) == 1 and lines[0].seq == self.last + 1:  # nearly always
            self.last += 1
            if lines[0].type == "withdrawn":
                self._declared += lines[0].withdrawn_ranges
            return lines
        for line in lines:
            if line.seq > self.last and line.seq not in self._early:
                self._early[line.seq] = line
                self._declared += line.withdrawn_ranges
        return self._ready()

    def _ready(self) -> list[Line]:
        ready: list[Line] = []
        while self._early:
            line = self._early.pop(self.last + 1, None)
            if line is None:
                following = min(self._early)
                if not self._is_declared(self.last + 1, following - 1):
                    break
                line = self._early.pop(following)
            self.last = line.seq
            ready.append(line)
        if not self._early:
            self._declared = [(a, b) for a, b in self._declared if b > self.last]
        return ready

    def _is_declared(self, first: int, last: int) -> bool:
        """Return whether every number of ``first..last`` was withdrawn."""
        for a, b in sorted(self._declared):
            if a <= first <= b:
                first = b + 1
            if first > last:
                return True
        return False


async def with_live(
    hot_log: HotLog, tenant: str, run_id: str, cursor: int, stored: list[Line], *, has_more: bool
) -> list[Line]:
    """Return ``stored``, a page of SQL's lines after ``cursor``, with the hot log's lines between and behind, in order.

    An event that was committed within a message that is still streamed stands in SQL before the message's deltas. The
    hot log is not read where it cannot have more: SQL has another page, or the run's end.
    """
    merge = Merge(cursor)
    lines = [*merge.offer(stored)]
    if merge.has_gap or not (has_more or (stored and stored[-1].is_end)):
        lines += merge.offer(await hot_log.read_after(tenant, run_id, merge.last))
    return lines


class Reader:
    """Follows one run from a cursor to its end; used by the page's feed, the terminal and handles alike."""

    def __init__(
        self,
        tenant: str,
        run_id: str,
        thread_id: str,
        cursor: int,
        database: Database,
        hot_log: HotLog,
        loop: ProcessLoop,
        *,
        read_first: bool = True,
    ) -> None:
        self._tenant = tenant
        self._run_id = run_id
        self._thread_id = thread_id
        self._database = database
        self._hot_log = hot_log
        self._loop = loop
        self._merge = Merge(cursor)
        self._arrived: list[Line] = []
        self._waiter: asyncio.Future[None] | None = None
        self._must_read = read_first  # False where the caller has just read SQL up to the cursor
        self._gap_since_s: float | None = None
        self._is_idle = False  # whether SQL is queried because no live event arrived
        self._is_polling = False  # whether that found events, so that SQL is queried more often
        self._late: asyncio.Task[list[Line]] | None = None

    async def batches(self) -> AsyncGenerator[list[Line], None]:
        """Yield batches of events in order, as many as are available, up to the terminal one.

        Raises:
            RunUnknown: the run was removed before its end was read.
        """
        await self._hot_log.follow(self._tenant, self._run_id, self._on_lines)
        noting = asyncio.get_running_loop().create_task(self._note())
        try:
            ready = self._merge.offer(await self._read_live())
            if ready:
                yield ready
            while not (ready and ready[-1].is_end):
                ready = await self._next()
                if ready:
                    yield ready
        finally:
            noting.cancel()
            if self._late is not None:
                self._late.cancel()
            await self._hot_log.unfollow(self._tenant, self._run_id, self._on_lines)

    async def _note(self) -> None:
        """Note at intervals that the run has a viewer, where its policy depends on that."""
        pause_s: float | None = FIRST_NOTE_S
        call = self._loop.read  # most runs have no such policy, and then nothing is written
        while pause_s is not None:
            await asyncio.sleep(pause_s)
            try:
                pause_s = await call(note_viewer, self._database, self._run_id)
                call = self._loop.write
            except CallboardError:  # the database is unreachable; for the reaper, too
                pause_s = FIRST_NOTE_S

    def _on_lines(self, lines: list[Line]) -> None:
        if not lines or lines[-1].stored_to > self._merge.last:  # events may have been missed, or are in SQL alone
            self._must_read = True
        else:
            self._arrived += lines
            self._is_polling = False
        self._wake()

    async def _next(self) -> list[Line]:
        if self._must_read or self._gap_left_s() <= 0:
            self._must_read, self._gap_since_s = False, None
            ready = await self._read_stored()
            if ready:
                self._is_polling = self._is_polling or self._is_idle
                self._must_read = True  # there may be another page
                return ready
        self._is_idle = False
        if not self._arrived and not self._must_read:
            is_live = self._hot_log.is_live and not self._is_polling
            await self._wait(min(IDLE_S if is_live else POLL_S, self._gap_left_s()))
        if not self._arrived:
            self._must_read = self._is_idle = True
            return []
        arrived, self._arrived = self._arrived, []
        ready = self._merge.offer(arrived)
        if self._merge.has_gap and any(line.is_end or line.is_waiting for line in arrived):
            self._must_read = True  # whose commit came after all before it
        return ready

    def _gap_left_s(self) -> float:
        """Return the seconds left to wait for the numbers of the present gap."""
        if not self._merge.has_gap:
            self._gap_since_s = None
            return IDLE_S
        now_s = self._loop.loop.time()
        if self._gap_since_s is None:
            self._gap_since_s = now_s
        return self._gap_since_s + GAP_S - now_s

    async def _wait(self, timeout_s: float) -> None:
        """Return when lines arrived, or after ``timeout_s``. Uses a bare future: this runs for every token."""
        self._waiter = self._loop.loop.create_future()
        timer = self._loop.loop.call_later(timeout_s, self._wake)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _read_stored(self) -> list[Line]:
        """Read SQL, and the hot log where SQL has nothing new.

        The event that declares a gap may be many pages after it, so pages are read until one closes the gap.
        """
        cursor = self._merge.last
        ready: list[Line] = []
        while not ready:
            try:
                lines = await self._loop.read(self._read_page, cursor)
            except RunUnknown:  # the run was removed meanwhile, so its end will never come
                raise
            except CallboardError:  # the database is unreachable; the next read tries again
                return []
            if not lines:
                return self._merge.offer(await self._read_live())
            ready, cursor = self._merge.offer(lines), lines[-1].seq
        if self._merge.has_gap:  # the deltas before an event that was committed within their message
            ready = [*ready, *self._merge.offer(await self._read_live())]
        return ready

    async def _read_live(self) -> list[Line]:
        """Return the hot log's lines, or none after ``LIVE_READ_S``: a stuck Redis must not delay SQL's lines."""
        if self._late is not None and not self._late.done():
            return []
        asking = asyncio.ensure_future(self._hot_log.read_after(self._tenant, self._run_id, self._merge.last))
        self._late = asking
        done, _ = await asyncio.wait([asking], timeout=LIVE_READ_S)
        if done:
            return asking.result()
        asking.add_done_callback(self._take_late)
        self._is_polling = True  # until a live event arrives
        return []

    def _take_late(self, task: asyncio.Task[list[Line]]) -> None:
        if not task.cancelled() and task.exception() is None and task.result():
            self._on_lines(task.result())

    def _read_page(self, cursor: int) -> list[Line]:
        with self._database.read() as connection:
            lines, _ = log_page(connection, self._run_id, self._thread_id, cursor)
            if not lines:
                require_run(connection, self._run_id)
            return lines
