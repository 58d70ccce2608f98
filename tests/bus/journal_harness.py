"""A journal to accept, claim, write and read runs in, without agents."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from sqlalchemy import Select, select, update

from bus.journal.acceptance.accept import Accepted, accept
from bus.journal.acceptance.new_run import NewRun
from bus.journal.controls import STOP
from bus.journal.errors import ControlsChanged
from bus.journal.idempotency import IdempotencyKey
from bus.journal.live.hotlog import HotLog, MemoryHotLog
from bus.journal.live.reader import Reader
from bus.journal.live.signatures import Keyring
from bus.journal.log.commit import Commit
from bus.journal.log.events import log_page
from bus.journal.log.group_commit import GroupCommit
from bus.journal.log.line import Line
from bus.journal.log.writer import RunWriter
from bus.journal.mailbox.control import control
from bus.journal.ownership.lease_manager import LeaseManager
from bus.journal.ownership.leases import claim_on
from bus.journal.ownership.reaper import due, fire, reap
from bus.journal.queries.run_record import RunRecord, record_of
from bus.journal.records.control_requests import ControlRequest, unread_controls
from bus.journal.records.threads import HistoryItem
from bus.journal.run_end import answering
from bus.journal.states.lease import Lease
from bus.journal.states.release import DRAINED, Release
from bus.journal.unowned.runs import UnownedRuns
from bus.journal.unowned.transitions import CommitResult
from bus.loop import ProcessLoop
from bus.payloads import EndPayload, MessagePayload, Payload, ResponsePayload, encode
from bus.queues import ServedQueues
from cli.crashlab.invariants import log_breaches
from config.database.engine import Database
from config.database.tables import runs, timers
from config.identity.principal import Principal

T = TypeVar("T")
ALL_QUEUES = ServedQueues(default="runs", names=("runs",))


def new_run(objective: str = "Hello", **fields: Any) -> NewRun:
    """Return what has to be known to accept a run."""
    defaults: dict[str, Any] = {
        "agent_id": "assistant",
        "agent_name": "Assistant",
        "definition_digest": "d" * 64,
        "definition_json": "{}",
        "model": "demo/assistant",
        "observers": ("sse",),
    }
    return NewRun(objective=objective, **(defaults | fields))


def claim(database: Database, run_id: str, owner: str, lease_s: float) -> Lease | None:
    """Claim a run in a transaction of its own."""
    with database.write() as connection:
        return claim_on(connection, database, run_id, owner, lease_s)


def cancel(
    database: Database, principal: Principal, run_id: str, by: str, idempotency: IdempotencyKey | None = None
) -> CommitResult:
    """Request a stop from the run's owner, or end a run without one."""
    return control(database, principal, run_id, STOP, by, idempotency)


def lose_owner(database: Database, run_id: str) -> None:
    """Have the reaper find the run after its lease expired."""
    with database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == run_id).values(lease_until=0))
    reap(database, run_id)


def fire_timers(database: Database, run_id: str) -> None:
    """Have the reaper find the run's timers due."""
    with database.write() as connection:
        connection.execute(update(timers).where(timers.c.run_id == run_id).values(due_ms=1))
    for run_of_timer, timer_id in due(database):
        fire(database, run_of_timer, timer_id)


def suspend(lease_manager: LeaseManager, seconds: float = 1000.0) -> None:
    """Let time pass as a process that was stopped sees it: its clock jumps, and it has sent no heartbeat."""
    clock = lease_manager.clock
    lease_manager.clock = lambda: clock() + seconds


class HandWork:
    """Work of a run that the lease manager tracks, with one thing to do when it is stopped."""

    def __init__(self, on_stop: Callable[[], object] = lambda: None) -> None:
        self.is_within_time = True
        self.released_as: Release | None = None
        self.is_cut = False
        self.received: list[ControlRequest] = []
        self._on_stop = on_stop

    def stop(self) -> None:
        self._on_stop()

    def release(self, change: Release = DRAINED) -> None:
        self.released_as = change

    def receive(self, request: ControlRequest) -> None:
        self.received.append(request)
        if request.kind == "stop":
            self.stop()

    def cut(self) -> None:
        self.is_cut = True


def keyring(secret: str = "5e" * 32) -> Keyring:
    """Return the keys of one process of a deployment with this secret."""

    async def read_secret() -> str:
        return secret

    return Keyring(read_secret)


class Owner:
    """One owner of a run: its lease, its writer, and what was delivered to its observers."""

    def __init__(
        self, harness: JournalHarness, lease: Lease, hot_log: HotLog | None = None, *, is_streamed: bool = True
    ) -> None:
        """``is_streamed``: whether the run has the observer ``sse``, so that its events are in the hot log."""
        self.harness = harness
        self.lease = lease
        self.delivered: list[Payload] = []
        self.woken: list[str] = []
        self.hot_log = hot_log or harness.hot_log
        self.is_streamed = is_streamed
        on_wake, on_left = self.woken.append, self.hot_log.hint_stored
        self.writer = RunWriter(lease, harness.commits, harness.loop, self.notify, on_wake=on_wake, on_left=on_left)
        if harness.loop.is_loop_thread():
            self.hot_log.attach(lease.run_id, lease.fence, self.writer)
        else:
            harness.loop.call_soon(lambda: self.hot_log.attach(lease.run_id, lease.fence, self.writer))

    def notify(self, payload: Payload) -> None:
        self.delivered.append(payload)
        if self.is_streamed:
            line = encode(payload, self.lease.run_id, self.lease.thread_id)
            self.hot_log.append(self.lease.run_id, payload.seq, line)

    def notify_of_claim(self) -> None:
        for payload in self.lease.first_events:
            self.notify(payload)

    @property
    def delivered_seqs(self) -> list[int]:
        return [payload.seq for payload in self.delivered]

    async def say(self, *pieces: str, message_id: str = "msg_1") -> None:
        for piece in pieces:
            self.writer.delta(ResponsePayload, {"content": piece, "message_id": message_id, "step_id": "stp_1"})

    async def message(self, text: str = "whole", message_id: str = "msg_1") -> list[Payload]:
        return await self.writer.commit(message_commit(text, message_id))

    async def end(self, status: Any = "succeeded") -> list[Payload]:
        return await save_end(self.harness, self.writer, Commit(events=[EndPayload(status=status)]))


async def save_end(harness: JournalHarness, writer: RunWriter, change: Commit) -> list[Payload]:
    """Commit a run's end with an answer to each of its unread controls, as an owner does."""
    while True:
        try:
            return await writer.commit(answering(change, harness.unread(writer.lease.run_id)))
        except ControlsChanged:
            continue


def message_commit(text: str = "whole", message_id: str = "msg_1") -> Commit:
    """Return the commit of a whole message."""
    message = MessagePayload(role="assistant", content=text, message_id=message_id, step_id="stp_1")
    item = HistoryItem(id=message_id, role="assistant", data={"content": text})
    return Commit(events=[message], history=[item])


class JournalHarness:
    """One database, one loop, one hot log."""

    def __init__(self, database: Database, loop: ProcessLoop, hot_log: HotLog | None = None) -> None:
        """``hot_log``: one in memory unless given."""
        self.database = database
        self.commits = GroupCommit(database, 1 if database.is_sqlite else 4)
        self.loop = loop
        self.hot_log: HotLog = hot_log or MemoryHotLog()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop; a test that hangs fails."""
        return self.loop.run(work, 90)

    def accept(self, objective: str = "Hello", **fields: Any) -> Accepted:
        return accept(self.database, new_run(objective, **fields))

    def accept_inline(self, objective: str = "Hello", **fields: Any) -> Accepted:
        """Accept a run whose message no worker is sent."""
        return accept(self.database, new_run(objective, **fields), lambda _connection, _run_id: None)

    def claim(self, run_id: str, owner: str = "own_1", lease_s: float = 60.0) -> Lease | None:
        """Claim the run, after a reaper requeued it where its lease had expired."""
        reap(self.database, run_id)
        return claim(self.database, run_id, owner, lease_s)

    def own(self, run_id: str | None = None, owner: str = "own_1", lease_s: float = 60.0) -> Owner:
        """Return the owner of a run that has just been accepted, or of this one."""
        lease = self.claim(run_id or self.accept().run_id, owner, lease_s)
        assert lease is not None
        return Owner(self, lease)

    def claimable(self, queues: ServedQueues = ALL_QUEUES) -> list[str]:
        """Return the ids of the runs that a worker of these queues may claim, the oldest first."""
        unowned = UnownedRuns(self.database, "own_poller", 60.0, lambda written: None)
        return [row.id for row in unowned.claimable(1000, queues)]

    def expire_lease(self, run_id: str, *, is_forgiven: bool = False) -> None:
        """Let a run's lease run out now; ``is_forgiven`` where it may happen any number of times."""
        forgiven = {"crashes": 0, "crashes_json": None} if is_forgiven else {}
        with self.database.write() as connection:
            connection.execute(update(runs).where(runs.c.id == run_id).values(lease_until=0, **forgiven))

    def rows(self, query: Select[Any]) -> list[Any]:
        with self.database.read() as connection:
            return list(connection.execute(query).all())

    def unread(self, run_id: str) -> list[ControlRequest]:
        """Return the controls of a run that no event has answered."""
        with self.database.read() as connection:
            return unread_controls(connection, run_id)

    def run_row(self, run_id: str) -> Any:
        (row,) = self.rows(select(runs).where(runs.c.id == run_id))
        return row

    def record(self, run_id: str) -> RunRecord:
        """Return everything the journal has about a run."""
        with self.database.read() as connection:
            return record_of(connection, self.run_row(run_id))

    def lines(self, run_id: str, cursor: int = 0, thread_id: str | None = None) -> list[Line]:
        """Return everything SQL has of a run after ``cursor``, page by page."""
        thread_id = thread_id or self.run_row(run_id).thread_id
        lines: list[Line] = []
        with self.database.read() as connection:
            while page := log_page(connection, run_id, thread_id, lines[-1].seq if lines else cursor)[0]:
                lines += page
        return lines

    def kinds(self, run_id: str) -> list[str]:
        return [line.type for line in self.lines(run_id)]

    def reader(self, accepted: Accepted | Lease, cursor: int = 0) -> Reader:
        where = self.run_row(accepted.run_id).tenant, accepted.run_id, accepted.thread_id
        return Reader(*where, cursor, self.database, self.hot_log, self.loop)

    async def read_all(self, accepted: Accepted | Lease, cursor: int = 0) -> list[Line]:
        """Return every line a reader delivers, to the end."""
        return [line async for batch in self.reader(accepted, cursor).batches() for line in batch]


def assert_whole(lines: list[Line]) -> None:
    """Numbers grow strictly, every hole is declared, and one end stands last."""
    assert list(log_breaches(lines)) == []


async def settled() -> None:
    """Return when everything scheduled on the loop right now has had its turn."""
    for _ in range(5):
        await asyncio.sleep(0)
