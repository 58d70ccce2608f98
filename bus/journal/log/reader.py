"""The one reader of a run's log: the hot log and SQL merged by number, nothing missed, nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from bus.journal.events import read_after, require_run
from bus.journal.hotlog import HotLog
from bus.journal.line import Line, withdrawn_ranges
from bus.loop import ProcessLoop
from config.database import Database
from config.errors import CallboardError, CursorAhead, CursorInvalid, RunUnknown

GAP_S = 1.0
"""How long a reader waits on a gap before it asks SQL."""
QUIET_S = 1.5
"""How long a reader hears nothing before it asks SQL, in case Redis lost what was said."""
DEAF_S = 0.7
"""How often it asks SQL while it is known that nothing is heard. Pieces are in SQL a second after they were said then;
nobody is to see one more than 2.5 s late."""
HASTE_S = 0.3
"""How long it waits for what the hot log holds; what comes later is taken then."""


def parse_cursor(text: str | None) -> int:
    """Return the number in a cursor; nothing means the beginning.

    Raises:
        CursorInvalid: it is not one of ours.
    """
    if text is None or text == "":
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise CursorInvalid(text)
    return int(text)


def check_cursor(cursor: int, issued: int) -> int:
    """Return the cursor if the run has issued that number, where ``issued`` is the highest it may have.

    Raises:
        CursorAhead: it lies beyond.
    """
    if cursor > issued:
        raise CursorAhead(cursor, issued)
    return cursor


class Merge:
    """Puts events from two places in order. Pure: lines in, lines that may be delivered out."""

    def __init__(self, cursor: int) -> None:
        self.last = cursor
        self._early: dict[int, Line] = {}
        self._declared: list[tuple[int, int]] = []

    @property
    def has_gap(self) -> bool:
        """Whether something waits for what comes before it."""
        return bool(self._early)

    def offer(self, lines: list[Line]) -> list[Line]:
        """Take lines in any order, also again, and return those whose turn it is."""
        if not self._early and len(lines) == 1 and lines[0].seq == self.last + 1:  # nearly always
            self.last += 1
            if lines[0].type == "withdrawn":
                self._declared += withdrawn_ranges(lines[0])
            return lines
        for line in lines:
            if line.seq > self.last and line.seq not in self._early:
                self._early[line.seq] = line
                self._declared += withdrawn_ranges(line)
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


class Reader:
    """Follows one run from a cursor to its end; used by the page's feed, the terminal and handles alike."""

    def __init__(
        self,
        run_id: str,
        thread_id: str,
        cursor: int,
        database: Database,
        hot_log: HotLog,
        loop: ProcessLoop,
        *,
        ask_first: bool = True,
    ) -> None:
        self._run_id = run_id
        self._thread_id = thread_id
        self._database = database
        self._hot_log = hot_log
        self._loop = loop
        self._merge = Merge(cursor)
        self._arrived: list[Line] = []
        self._waiter: asyncio.Future[None] | None = None
        self._must_ask = ask_first  # not by who has just read SQL up to the cursor
        self._stuck_since_s: float | None = None
        self._is_quiet = False  # whether SQL is asked since nothing was heard
        self._is_deaf = False  # whether that found something, so that it should be asked more often
        self._late: asyncio.Task[list[Line]] | None = None

    async def batches(self) -> AsyncGenerator[list[Line], None]:
        """Yield events in order, as many at a time as there are, until after the terminal one.

        Raises:
            RunUnknown: the run was removed before its end was read.
        """
        await self._hot_log.follow(self._run_id, self._listen)
        try:
            ready = self._merge.offer(await self._ask_hot_log())
            if ready:
                yield ready
            while not (ready and ready[-1].is_end):
                ready = await self._next()
                if ready:
                    yield ready
        finally:
            if self._late is not None:
                self._late.cancel()
            await self._hot_log.unfollow(self._run_id, self._listen)

    def _listen(self, lines: list[Line]) -> None:
        if lines:
            self._arrived += lines
            self._is_deaf = False
        else:  # the hot log may have missed something
            self._must_ask = True
        self._wake()

    async def _next(self) -> list[Line]:
        if self._must_ask or self._gap_left_s() <= 0:
            self._must_ask, self._stuck_since_s = False, None
            ready = await self._ask()
            if ready:
                self._is_deaf = self._is_deaf or self._is_quiet
                self._must_ask = True  # there may be another page
                return ready
        self._is_quiet = False
        if not self._arrived:
            is_heard = self._hot_log.is_heard and not self._is_deaf
            await self._wait(min(QUIET_S if is_heard else DEAF_S, self._gap_left_s()))
        if not self._arrived:
            self._must_ask = self._is_quiet = True
            return []
        arrived, self._arrived = self._arrived, []
        return self._merge.offer(arrived)

    def _gap_left_s(self) -> float:
        """Return how long to wait on a gap yet, whatever else arrives behind it."""
        if not self._merge.has_gap:
            self._stuck_since_s = None
            return QUIET_S
        now_s = self._loop.loop.time()
        if self._stuck_since_s is None:
            self._stuck_since_s = now_s
        return self._stuck_since_s + GAP_S - now_s

    async def _wait(self, timeout_s: float) -> None:
        """Return when something arrived, or after so long: a bare future, since this is done for every token."""
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

    async def _ask(self) -> list[Line]:
        """Ask SQL, and where it has nothing new the hot log.

        What declares a gap may be many pages behind it, so a page that sets nothing free is followed by the next.
        """
        cursor = self._merge.last
        ready: list[Line] = []
        while not ready:
            try:
                lines = await self._loop.read(self._read_page, cursor)
            except RunUnknown:  # it was removed meanwhile, so its end will never come
                raise
            except CallboardError:  # the database is away for a moment; the next look tries again
                return []
            if not lines:
                return self._merge.offer(await self._ask_hot_log())
            ready, cursor = self._merge.offer(lines), lines[-1].seq
        return ready

    async def _ask_hot_log(self) -> list[Line]:
        """Return what the hot log holds, unless it takes long: a Redis that is stuck must not hold SQL's lines up."""
        if self._late is not None and not self._late.done():
            return []
        asking = asyncio.ensure_future(self._hot_log.read_after(self._run_id, self._merge.last))
        self._late = asking
        done, _ = await asyncio.wait([asking], timeout=HASTE_S)
        if done:
            return asking.result()
        asking.add_done_callback(self._take_late)
        self._is_deaf = True  # until something is heard
        return []

    def _take_late(self, asked: asyncio.Task[list[Line]]) -> None:
        if not asked.cancelled() and asked.exception() is None and asked.result():
            self._listen(asked.result())

    def _read_page(self, cursor: int) -> list[Line]:
        with self._database.read() as connection:
            lines = read_after(connection, self._run_id, self._thread_id, cursor)
            if not lines:
                require_run(connection, self._run_id)
            return lines
