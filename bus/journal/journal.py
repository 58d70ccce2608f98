"""The journal of one process: its database, hot log, leases and relay, opened together and closed together."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import Future
from contextlib import aclosing, contextmanager
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from sqlalchemy import Connection, select

from bus.journal import accept as accepting
from bus.journal import approvals, endings
from bus.journal.accept import Accepted, NewRun
from bus.journal.admission import Admission
from bus.journal.approvals import Decided, Decision
from bus.journal.events import last_committed, read_after
from bus.journal.group_commit import GroupCommit
from bus.journal.hotlog import HotLog, MemoryHotLog
from bus.journal.idempotency import IdempotencyKey
from bus.journal.keeper import LeaseKeeper
from bus.journal.keyring import SECRET_NAME, Keyring
from bus.journal.leases import Lease, claim_on
from bus.journal.line import Line
from bus.journal.outbox import Publish, Relay
from bus.journal.owner_id import new_owner_id
from bus.journal.ownerless import Written
from bus.journal.reader import Reader
from bus.journal.reaper import Reaper
from bus.journal.redis_log import RedisHotLog
from bus.journal.secret import shared_secret
from bus.journal.who import Who
from bus.journal.writer import RunWriter, Tell
from bus.keys import Keys
from bus.loop import ProcessLoop, process_loop
from bus.payloads import TERMINAL, encode
from config.database import Database, open_database
from config.errors import DatabaseBusy, DatabaseUnreachable, LoopBlocked
from config.failpoints import failpoint
from config.settings import Settings

POSTGRES_WRITERS = 8
SLOW = 1 / 5
"""The part of a lease that a commit or heartbeat may take while more runs are claimed."""
T = TypeVar("T")


class Journal:
    """Everything runs are written to and read from, for one process."""

    def __init__(self, settings: Settings, *, publish: Publish, loop: ProcessLoop | None = None) -> None:
        self.settings = settings
        self.loop = loop or process_loop()
        self.database: Database = open_database(
            settings.database, pool_size=settings.database_pool_size, max_overflow=settings.database_max_overflow
        )
        self.keys = Keys(settings.deployment)
        self.hot_log: HotLog = _open_hot_log(settings, self.keys, Keyring(self._live_secret))
        self.owner = new_owner_id()
        # The board hears of a run when its wake-up is out: off the path of whoever is accepting it.
        self.relay = Relay(self.database, publish, every_s=settings.reap_s, on_published=self.nudge_board)
        self.keeper = LeaseKeeper(
            self.owner, settings, self.database, self.loop, self.hot_log, self.keys
        )  # fmt: skip
        self.commits = GroupCommit(self.database, 1 if self.database.is_sqlite else POSTGRES_WRITERS)
        self.admission = Admission(self._delay_s, settings.lease_s * SLOW)
        self.reaper = Reaper(self.database, settings, self.spread)
        if not self.database.is_sqlite:
            self.loop.widen_writes(POSTGRES_WRITERS)

    # --- writing

    def accept(self, new: NewRun) -> Accepted:
        """Return once the run is committed; see ``bus.journal.accept``."""
        accepted = accepting.accept(self.database, new)
        if accepted.outbox_row is not None:
            self.relay.expect(accepted.run_id, accepted.outbox_row)
        return accepted

    async def claim(self, run_id: str) -> Lease | None:
        """Return the lease of a run that is this process's now, or None; see ``bus.journal.leases``."""
        return await self.loop.wait(self.claim_and_begin, run_id, lambda _connection, lease: lease)

    def claim_and_begin(self, run_id: str, begin: Callable[[Connection, Lease], T]) -> T | None:
        """Return what ``begin`` made of a run that is this process's now, or None when there is nothing to claim.

        ``begin`` is called in the claim's own transaction, so that the first step's ``started`` is committed
        with it; what it raises undoes the claim. For a plain thread: it waits for the database, and for its turn
        while the database is slow.

        Raises:
            DatabaseBusy: the database stayed too slow for more runs here; the run stays queued.
        """
        with self.admission.place():
            if self.keeper.is_leaving:  # it waited until now, and shall not wait for the end of this process
                self.relay.tell(run_id)
                return None
            begun = self.commits.submit(run_id, lambda connection: self._claim(connection, run_id, begin)).result()
        if begun is not None:
            failpoint("claim")
        return begun

    def _claim(self, connection: Connection, run_id: str, begin: Callable[[Connection, Lease], T]) -> T | None:
        lease = claim_on(connection, self.database, run_id, self.owner, self.settings.lease_s)
        if lease is None:
            return None
        begun = begin(connection, lease)
        failpoint("claim-before")
        return begun

    def _delay_s(self) -> float:
        """How long writes take now: the longest of those on their way. A process that leaves claims nothing."""
        return 0.0 if self.keeper.is_leaving else max(self.commits.delay_s, self.keeper.delay_s)

    async def wall_clock_ms(self) -> int:
        """Return now in milliseconds since 1970, by the clock that timers are compared with."""
        return await self.loop.read(self._wall_clock_ms)

    def _wall_clock_ms(self) -> int:
        with self.database.read() as connection:
            return int(connection.execute(select(self.database.wall_clock())).scalar_one())

    def writer(self, lease: Lease, tell: Tell) -> RunWriter:
        """Return the writer of a claimed run."""
        return RunWriter(lease, self.commits, self.loop, tell, on_wake=self.relay.tell)

    def cancel(self, who: Who, run_id: str, *, by: str, idempotency: IdempotencyKey | None = None) -> Written:
        """Ask a run to stop; see ``bus.journal.endings``. May be called from any thread and any process."""
        written = endings.cancel(self.database, who, run_id, by, idempotency)
        self.spread(written)
        if not written.events and written.status not in TERMINAL:
            self.loop.call_soon(lambda: self._stop(run_id))
        return written

    def decide(
        self, who: Who, run_id: str, approval_id: str, answer: Decision, *, by: str,
        idempotency: IdempotencyKey | None = None,
    ) -> Decided:  # fmt: skip
        """Take a person's answer; see ``bus.journal.approvals``. May be called from any thread and any process."""
        decided = approvals.decide(self.database, who, run_id, approval_id, answer, by=by, idempotency=idempotency)
        self.spread(decided.written)
        return decided

    def spread(self, written: Written) -> None:
        """Tell viewers, and whoever may begin now, what was written without an owner."""
        if written.wake is not None:
            self.relay.tell(written.wake)
        if written.events:
            self.loop.call_soon(lambda: self._show(written))

    def nudge_board(self, run_id: str) -> None:
        """Tell whoever shows the board that a run's state changed."""
        self.loop.call_soon(lambda: self.hot_log.nudge(self.keys.board, run_id))

    def _show(self, written: Written) -> None:
        run_id, fence = written.run_id, written.fence
        if self.hot_log.attach(run_id, fence, _Sealed(written.events[-1].seq)):  # else a later owner writes here
            for payload in written.events:
                self.hot_log.append(run_id, payload.seq, encode(payload, run_id, written.thread_id))
            self.loop.submit(self.hot_log.detach(run_id, fence))
        self.hot_log.nudge(self.keys.board, run_id)

    def _stop(self, run_id: str) -> None:
        """Have the owner look at its runs' flags now, wherever it is."""
        if not self.keeper.stop_here(run_id):
            self.hot_log.nudge(self.keys.nudges, f"stop {run_id}")

    # --- reading

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection for the reading functions of ``runs`` and ``threads``."""
        with self.database.read() as connection:
            yield connection

    def follow(
        self, run_id: str, thread_id: str, cursor: int, *, ask_first: bool = True
    ) -> AsyncGenerator[list[Line], None]:
        """Return the run's events after ``cursor``, in order, to its end; to be iterated on the loop.

        Who has read SQL up to ``cursor`` just now need not have it asked again first.
        """
        reader = Reader(run_id, thread_id, cursor, self.database, self.hot_log, self.loop, ask_first=ask_first)
        return reader.batches()

    def follow_here(self, run_id: str, thread_id: str, cursor: int) -> Iterator[Line]:
        """Yield the run's events to a plain thread; see ``follow``.

        Raises:
            LoopBlocked: called on the loop's own thread.
        """
        if self.loop.is_here():
            raise LoopBlocked("reading events")
        lines: SimpleQueue[list[Line] | BaseException | None] = SimpleQueue()
        future = self.loop.submit(_pour(self.follow(run_id, thread_id, cursor), lines.put))
        try:
            while (batch := _take(lines, self.loop)) is not None:
                if isinstance(batch, BaseException):
                    raise batch
                yield from batch
        finally:
            future.cancel()

    async def wait(self, run_id: str, thread_id: str) -> Line:
        """Return the run's last event once it is there. Most of what comes before is not looked at."""
        try:
            cursor = await self.loop.read(self._last_committed, run_id)
        except (DatabaseBusy, DatabaseUnreachable):
            cursor = 0  # it is only quicker to begin further on; a reader is patient
        async with aclosing(self.follow(run_id, thread_id, cursor)) as batches:
            async for batch in batches:
                if batch[-1].is_end:
                    return batch[-1]
        raise AssertionError("a log ends with its end")

    def _last_committed(self, run_id: str) -> int:
        with self.database.read() as connection:
            return last_committed(connection, run_id)

    def page(self, run_id: str, thread_id: str, cursor: int) -> list[Line]:
        """Return a page of what SQL has after ``cursor``; at most 500 rows' worth."""
        with self.database.read() as connection:
            return read_after(connection, run_id, thread_id, cursor)

    async def _live_secret(self) -> str:
        return await self.loop.read(shared_secret, self.database, SECRET_NAME)

    # --- closing

    def close(self) -> None:
        """Send what is pending and close every connection."""
        self.reaper.stop()
        self.relay.stop()
        self.loop.call_soon(self.keeper.close)
        closing: Future[None] = self.loop.submit(self.hot_log.close())
        closing.result(5)
        self.commits.close()
        self.database.close()


class _Sealed:
    """The source of events that are in SQL already."""

    def __init__(self, sealed_to: int) -> None:
        self.sealed_to = sealed_to

    def seal_soon(self) -> None:
        """Nothing is held."""

    def lost_ownership(self) -> None:
        """A later owner's events are the truth; ours are in SQL, below them."""


def _open_hot_log(settings: Settings, keys: Keys, keyring: Keyring) -> HotLog:
    if settings.redis_url is None:
        return MemoryHotLog()
    return RedisHotLog(
        settings.redis_url, keys, keyring, ttl_s=settings.hot_log_ttl_s, max_bytes=settings.hot_log_max_bytes
    )


async def _pour(batches: AsyncGenerator[list[Line], None], put: Callable[[Any], None]) -> None:
    try:
        async with aclosing(batches):
            async for batch in batches:
                put(batch)
        put(None)
    except Exception as wrong:  # it is raised where the lines are read
        put(wrong)


def _take(lines: SimpleQueue[Any], loop: ProcessLoop) -> Any:
    """Wait for the next item in slices, so that Ctrl-C is heard on every platform.

    Raises:
        OpenedBeforeFork: the loop that brings the items is in the process this one was forked from.
    """
    while True:
        loop.require_own_process()
        try:
            return lines.get(timeout=0.5)
        except Empty:
            continue
