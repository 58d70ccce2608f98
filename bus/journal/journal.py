"""The journal of one process: its database, hot log, leases and relay, opened together and closed together."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import Future
from contextlib import aclosing, suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from bus.errors import LoopBlocked
from bus.journal import endings
from bus.journal.acceptance import accept as accepting
from bus.journal.acceptance.accept import Accepted, NewRun, Record
from bus.journal.acceptance.callers_transaction import CallersTransaction
from bus.journal.acceptance.definition_store import read_pinned
from bus.journal.acceptance.run_limits import run_limits
from bus.journal.approvals import Decision
from bus.journal.controls import Control
from bus.journal.decisions import decisions
from bus.journal.decisions.decisions import Decided
from bus.journal.decisions.guarded_answer import Guard, guarded
from bus.journal.decisions.links import ApprovalLinks, UsedLink
from bus.journal.idempotency import IdempotencyKey
from bus.journal.live.database_id import database_id
from bus.journal.live.hotlog import HotLog, MemoryHotLog, begin_writing, end_writing
from bus.journal.live.reader import Reader, with_live
from bus.journal.live.redis_log import RedisHotLog
from bus.journal.live.signatures import SECRET_NAME, Keyring
from bus.journal.log.audited import audit_calls
from bus.journal.log.events import last_committed, log_page
from bus.journal.log.group_commit import GroupCommit
from bus.journal.log.line import Line
from bus.journal.log.writer import Notify, RunWriter
from bus.journal.outbox import Publish, Relay, announce
from bus.journal.ownership.admission import Admission
from bus.journal.ownership.lease_manager import LeaseManager
from bus.journal.ownership.leases import Claim, claim_on, confirm
from bus.journal.ownership.owner_id import new_owner_id
from bus.journal.ownership.reaper import Reaper
from bus.journal.ownership.tools import Tools
from bus.journal.ownership.workers import Workers
from bus.journal.queries.runs import Runs
from bus.journal.queries.threads import Threads
from bus.journal.states.codes import RunStatus
from bus.journal.states.crashes import clear_suspect
from bus.journal.states.lease import Lease
from bus.journal.sticky import StickyApprovals
from bus.journal.stores.internal_events import InternalEvents
from bus.journal.stores.mcp_logins import McpLogins
from bus.journal.stores.mcp_manifests import McpManifests
from bus.journal.stores.write_probe import WriteProbe
from bus.journal.unowned.runs import UnownedRuns
from bus.journal.unowned.task_waits import TaskWaits
from bus.journal.unowned.transitions import CommitResult
from bus.keys import Keys
from bus.loop import ProcessLoop, process_loop
from bus.payloads import encode
from config.database.engine import Database, open_database, wall_ms
from config.database.errors import DatabaseBusy, DatabaseUnreachable
from config.database.shared_secret import shared_secret
from config.errors import CallboardError, Retryable
from config.failpoints import failpoint
from config.identity.principal import Principal
from config.settings import Settings

log = logging.getLogger(__name__)

POSTGRES_WRITERS = 8
SLOW = 1 / 5
"""The fraction of a lease that a commit or heartbeat may take; beyond it no more runs are claimed."""
CONFIRM_S = 0.25
"""Seconds before each question to the database whether a claim without an answer was committed; less than a reaper's
grace."""
P = ParamSpec("P")
T = TypeVar("T")


class Journal:
    """The access of one process to all runs: accept, claim, write, read, stop and answer."""

    def __init__(
        self,
        settings: Settings,
        *,
        publish: Publish,
        guard: Callable[[], Guard],
        loop: ProcessLoop | None = None,
        database: Database | None = None,
    ) -> None:
        """``guard`` returns what checks a person's answers now."""
        self.settings = settings
        self._guard = guard
        self.loop = loop or process_loop()
        self.database: Database = database or open_database(
            settings.database, pool_size=settings.database_pool_size, max_overflow=settings.database_max_overflow
        )
        self._database_id: str | None = None
        self.keys = Keys(settings.deployment)
        self.hot_log: HotLog = _open_hot_log(
            settings, self.keys, Keyring(partial(self.loop.read, shared_secret, self.database, SECRET_NAME))
        )
        self.owner = new_owner_id()
        # The board is notified when the wake-up is published, so that accepting a run does not wait for Redis.
        self.relay = Relay(self.database, publish, every_s=settings.reap_s, on_published=self.nudge_board)
        self.lease_manager = LeaseManager(self.owner, settings, self.database, self.loop, self.hot_log, self.keys)
        self.commits = GroupCommit(self.database, 1 if self.database.is_sqlite else POSTGRES_WRITERS)
        self._closing = threading.Event()
        self.admission = Admission(self._delay_s, settings.lease_s * SLOW)
        self.reaper = Reaper(self.database, settings, self.publish)
        self.runs, self.threads, self.workers = Runs(self.database), Threads(self.database), Workers(self.database)
        self.tools = Tools(self.database)
        self.task_waits = TaskWaits(self.database, self.publish)
        self.internal_events = InternalEvents(self.database)
        self.mcp_manifests = McpManifests(self.database)
        self.mcp_logins = McpLogins(self.database)
        self.approval_links = ApprovalLinks(self.database)
        self.sticky_approvals = StickyApprovals(self.database)
        self.write_probe = WriteProbe(self.database)
        self.unowned = UnownedRuns(self.database, self.owner, settings.lease_s, self.publish)
        if not self.database.is_sqlite:
            self.loop.widen_writes(POSTGRES_WRITERS)

    def database_id(self) -> str:
        """Return the id that this deployment's workers announce in Redis; see ``bus.journal.live.database_id``."""
        if self._database_id is None:
            self._database_id = database_id(self.database)
        return self._database_id

    # --- writing

    def accept(self, new: NewRun, record: Record = announce) -> Accepted:
        """Return once the run is committed; see ``bus.journal.acceptance.accept``."""
        limits = run_limits(self.settings, new.principal.tenant)
        return accepting.accept(self.database, new, record, limits, is_audited=self.settings.audit_calls)

    def accept_on(self, transaction: CallersTransaction, new: NewRun, record: Record = announce) -> Accepted:
        """Return a run that exists once the caller commits; see ``bus.journal.acceptance.callers_transaction``."""
        with self.database.naming_errors():
            limits = run_limits(self.settings, new.principal.tenant)
            is_audited = self.settings.audit_calls
            accepted = accepting.accept_on(transaction.connection, new, record, limits, is_audited=is_audited)
        if accepted.is_new:
            transaction.after_commit(partial(self.relay.publish_once_committed, accepted.run_id))
        return accepted

    async def claim(self, run_id: str) -> Lease | None:
        """Claim a run for this process and return its lease, or None; see ``bus.journal.ownership.leases``."""
        return await self.loop.wait(self.claim_and_begin, run_id, lambda claim: claim.lease)

    def claim_and_begin(self, run_id: str, begin: Callable[[Claim], T]) -> T | None:
        """Claim a run and return the result of ``begin``, or None when there is nothing to claim.

        ``begin`` is called in the claim's transaction, so that the start of the first step is committed with the
        claim; an exception rolls the claim back. Blocks: to be called on a plain thread. While the database is slow,
        it waits for its turn; where the answer to its commit is lost, until it is known whether the run is claimed.

        Raises:
            DatabaseBusy: the database stayed too slow to claim more runs; the run stays queued.
            DatabaseUnreachable: the database does not answer; the run stays queued.
        """
        tried: tuple[Lease, T] | None = None
        claimed: Claim | None = None

        def claim(connection: Connection) -> T | None:
            nonlocal tried, claimed
            tried, claimed, lease = (
                None,
                None,
                claim_on(connection, self.database, run_id, self.owner, self.settings.lease_s),
            )
            if lease is None:
                return None
            claimed = Claim(connection, lease)
            begun = begin(claimed)
            failpoint("claim-before")
            tried = lease, begun
            return begun

        def audit(connection: Connection) -> None:
            if claimed is not None and claimed.begun:
                audit_calls(connection, claimed.lease, claimed.begun)

        with self.admission.place():
            if self.lease_manager.is_leaving:  # the process began to drain while this waited for its turn
                self.relay.publish_soon(run_id)
                return None
            try:
                begun = self.commits.run(run_id, claim, last=audit if self.settings.audit_calls else None)
            except DatabaseUnreachable:
                if tried is None or not self._is_claimed(tried[0]):
                    raise
                begun = tried[1]
        if begun is not None:
            failpoint("claim")
        return begun

    def _is_claimed(self, lease: Lease) -> bool:
        """Return whether a claim without an answer was committed; waits until the database says it, or ``close``."""
        while not self._closing.wait(CONFIRM_S):
            try:
                return confirm(self.database, lease, self.settings.lease_s)
            except Retryable as error:
                log.warning("it is not known yet whether a run was claimed run_id=%s: %s", lease.run_id, error)
        return False

    def _delay_s(self) -> float:
        """Seconds that the slowest pending write has taken so far; 0 while draining, so that waiting claims return."""
        return 0.0 if self.lease_manager.is_leaving else max(self.commits.delay_s, self.lease_manager.delay_s)

    async def wall_clock_ms(self) -> int:
        """Return now in milliseconds since 1970, by the clock that timers are compared with."""
        return await self.loop.read(self._read, wall_ms)

    def writer(self, lease: Lease, notify: Notify) -> RunWriter:
        return RunWriter(
            lease,
            self.commits,
            self.loop,
            notify,
            on_wake=self.relay.publish_soon,
            on_left=self.hot_log.hint_stored,
            is_audited=self.settings.audit_calls,
        )

    def begin_writing(self, lease: Lease, writer: RunWriter) -> None:
        """Let the events of a claimed run reach the hot log; called on the loop."""
        begin_writing(self.hot_log, lease.run_id, lease.fence, writer)

    async def disown(self, lease: Lease) -> None:
        """Let the run's hot log expire and extend its lease no more: it ended, was released, or has another owner."""
        self.lease_manager.untrack(lease.run_id, lease.fence)
        await end_writing(lease.run_id, lease.fence)
        self.hot_log.nudge(self.keys.board(lease.tenant), lease.run_id)

    async def clear_suspect(self, lease: Lease) -> bool:
        """Clear the suspicion of a run that completed the tool calls of its crashes; False if the fence is stale."""
        return await self.loop.write(clear_suspect, self.database, lease.run_id, lease.fence)

    async def fail_owned(self, lease: Lease, error: CallboardError) -> None:
        """End a claimed run for an error, with a result for every call that earlier owners left open.

        Raises:
            StaleOwner: another worker owns the run now.
        """
        self.publish(await self.loop.write(endings.fail_owned, self.database, lease.run_id, lease.fence, error))

    def control(
        self, principal: Principal, run_id: str, wanted: Control, *, by: str, idempotency: IdempotencyKey | None = None
    ) -> CommitResult:
        """Do or request what the verb says; see ``bus.journal.endings``. From any thread and any process."""
        written = endings.control(self.database, principal, run_id, wanted, by, idempotency)
        self.publish(written)
        if not written.events and not wanted.is_done(written.status):
            self.loop.call_soon(lambda: self._reach(run_id, wanted))
        return written

    def decide(
        self,
        principal: Principal,
        run_id: str,
        approval_id: str,
        answer: Decision,
        *,
        by: str,
        idempotency: IdempotencyKey | None = None,
        link: UsedLink | None = None,
    ) -> Decided:
        """Record a person's answer; see ``bus.journal.decisions.decisions``. From any thread and any process.

        Raises:
            InputBlocked: the answer has what may not be kept.
        """
        answer = guarded(answer, self._guard())
        decided = decisions.decide(
            self.database,
            principal,
            run_id,
            approval_id,
            answer,
            by=by,
            idempotency=idempotency,
            link=link,
            local=self.settings.local_principal,
        )
        self.publish(decided.written)
        return decided

    def publish(self, written: CommitResult) -> None:
        """Send viewers the events that were written without an owner, and publish the wake-up that goes with them."""
        if written.wake is not None:
            self.relay.publish_soon(written.wake)
        if written.events:
            self.loop.call_soon(lambda: self._show(written))

    def nudge_board(self, tenant: str, run_id: str) -> None:
        """Notify the feeds of the tenant's boards that a run's state changed."""
        self.loop.call_soon(lambda: self.hot_log.nudge(self.keys.board(tenant), run_id))

    def _show(self, written: CommitResult) -> None:
        run_id, fence = written.run_id, written.fence
        if self.hot_log.attach(run_id, fence, _Sealed(written)):  # else a later owner writes here
            for payload in written.events:
                self.hot_log.append(run_id, payload.seq, encode(payload, run_id, written.thread_id))
            self.loop.submit(self.hot_log.detach(run_id, fence))
        self.hot_log.nudge(self.keys.board(written.tenant), run_id)

    def _reach(self, run_id: str, wanted: Control) -> None:
        """Do it if this process owns the run; otherwise nudge its owner to read the request now."""
        if not self.lease_manager.control_local(run_id, wanted):
            self.hot_log.nudge(self.keys.nudges, f"{wanted.kind} {run_id}")

    # --- reading

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
        place = self.database, self.hot_log, self.loop
        return Reader(tenant, run_id, thread_id, cursor, *place, read_first=read_first).batches()

    def follow_blocking(self, tenant: str, run_id: str, thread_id: str, cursor: int) -> Iterator[Line]:
        """Yield the run's events to a plain thread; see ``follow``.

        Raises:
            LoopBlocked: called on the loop's own thread.
            OpenedBeforeFork: the loop that brings the events is in the process this one was forked from.
        """
        if self.loop.is_loop_thread():
            raise LoopBlocked(what="reading events")
        lines: SimpleQueue[list[Line]] = SimpleQueue()
        pouring = self.loop.submit(_pour(self.follow(tenant, run_id, thread_id, cursor), lines.put))
        pouring.add_done_callback(lambda _: lines.put([]))  # so that this thread sees that it is done
        try:
            while not (pouring.done() and lines.empty()):
                self.loop.require_own_process()
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
            cursor = await self.loop.read(self._read, last_committed, run_id)
        except (DatabaseBusy, DatabaseUnreachable):
            cursor = 0  # a later cursor only saves reading
        async with aclosing(self.follow(tenant, run_id, thread_id, cursor)) as batches:
            async for batch in batches:
                if batch[-1].is_end:
                    return batch[-1]
        raise AssertionError("a log ends with its end")

    async def wait_until_idle(self, tenant: str, run_id: str, thread_id: str) -> None:
        """Return when the run has ended, or waits for a person or for other code."""
        cursor = await self.loop.read(self._read, last_committed, run_id)
        if await self.loop.read(self.runs.status, run_id) not in (RunStatus.QUEUED, RunStatus.RUNNING):
            return  # read after the cursor: what changes from now on is in the log behind it
        async with aclosing(self.follow(tenant, run_id, thread_id, cursor)) as batches:
            async for batch in batches:
                if any(line.is_end or line.is_waiting for line in batch):
                    return

    def page(self, run_id: str, thread_id: str, cursor: int) -> tuple[list[Line], bool]:
        """Return a page of SQL's events after ``cursor`` (500 rows or 1 MB), and whether there may be more."""
        return self._read(log_page, run_id, thread_id, cursor)

    def _read(self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        with self.database.read() as connection:
            return function(connection, *args, **kwargs)

    async def with_live(
        self, tenant: str, run_id: str, cursor: int, stored: list[Line], *, has_more: bool
    ) -> list[Line]:
        """Return a page of SQL's events followed by the live ones; see ``bus.journal.live.reader``."""
        return await with_live(self.hot_log, tenant, run_id, cursor, stored, has_more=has_more)

    # --- closing

    def close(self) -> None:
        """Publish pending wake-ups, write pending commits and close every connection."""
        self._closing.set()
        self.reaper.stop()
        self.relay.stop()
        self.loop.call_soon(self.lease_manager.close)
        closing: Future[None] = self.loop.submit(self.hot_log.close())
        closing.result(5)
        self.commits.close()
        self.database.close()


class _Sealed:
    """The hot log's view of events that are in SQL already: none has to be sealed."""

    def __init__(self, written: CommitResult) -> None:
        self.tenant = written.tenant
        self.sealed_to = written.events[-1].seq

    def seal_soon(self) -> None:
        """There is nothing to seal."""

    def lost_ownership(self) -> None:
        """There is nothing to stop: the events are committed, with numbers below those of the later owner."""


def _open_hot_log(settings: Settings, keys: Keys, keyring: Keyring) -> HotLog:
    if settings.redis_url is None:
        return MemoryHotLog()
    return RedisHotLog(
        settings.redis_url,
        keys,
        keyring,
        ttl_s=settings.hot_log_ttl_s,
        max_bytes=settings.hot_log_max_bytes,
        budget_of=lambda tenant: settings.for_tenant(tenant).tenant_hot_log_max_bytes,
    )


async def _pour(batches: AsyncGenerator[list[Line], None], put: Callable[[list[Line]], None]) -> None:
    async with aclosing(batches):
        async for batch in batches:
            put(batch)
