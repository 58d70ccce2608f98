"""What a process does that owns runs: claims them, writes them, keeps their leases, and gives them back."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from sqlalchemy import Connection

from bus.journal import run_end
from bus.journal.acceptance.children import AcceptedChild, new_child
from bus.journal.acceptance.new_run import NewRun
from bus.journal.actors.family import RunFamily
from bus.journal.actors.live import Live
from bus.journal.forks.continued import RepeatedRun, earlier_child
from bus.journal.log.audited import audit_calls
from bus.journal.log.children import lineage
from bus.journal.log.group_commit import GroupCommit
from bus.journal.log.writer import Notify, RunWriter
from bus.journal.ownership.claims import Admission, Begun, ClaimTerms, Refused, Waiting, why_not
from bus.journal.ownership.lease_manager import LeaseManager
from bus.journal.ownership.leases import Claim, claim_on, confirm
from bus.journal.ownership.reaper import Reaper
from bus.journal.ownership.workers import new_owner_id
from bus.journal.records.control_requests import ControlRequest, unread_controls
from bus.journal.states.crashes import clear_suspect
from bus.journal.states.lease import Lease
from bus.journal.unowned.runs import UnownedRuns
from bus.journal.unowned.task_waits import TaskWaits
from bus.loop import ProcessLoop
from config.database.engine import Database, wall_ms
from config.database.errors import DatabaseUnreachable
from config.errors import CallboardError, Retryable
from config.failpoints import failpoint
from config.settings import Settings

log = logging.getLogger(__name__)

POSTGRES_WRITERS = 8
SLOW = 1 / 5
"""The fraction of a lease that a commit or heartbeat may take; beyond it no more runs are claimed."""
CONFIRM_S = 0.25
"""Seconds before each question to the database whether a claim without an answer was committed; less than a reaper's
grace."""
T = TypeVar("T")


class Owner:
    """The runs that this process owns, and those without an owner that it may take."""

    def __init__(self, settings: Settings, database: Database, loop: ProcessLoop, live: Live) -> None:
        self._settings = settings
        self._database = database
        self._loop = loop
        self._live = live
        self._closing = threading.Event()
        self.id = new_owner_id()
        """The name of this process in the rows of its runs, and among the workers."""
        self.lease_manager = LeaseManager(self.id, settings, database, loop, live.hot_log, live.keys)
        self._family = RunFamily(database, loop, live, self.lease_manager.control_local)
        live.stop_children = self._family.stop_children
        self.commits = GroupCommit(database, 1 if database.is_sqlite else POSTGRES_WRITERS)
        self.admission = Admission(self._delay_s, settings.lease_s * SLOW)
        self.reaper = Reaper(database, settings, live.publish)
        self.unowned = UnownedRuns(database, self.id, settings.lease_s, live.publish)
        self.task_waits = TaskWaits(database, live.publish)
        if not database.is_sqlite:
            loop.widen_writes(POSTGRES_WRITERS)

    async def claim(self, run_id: str) -> Lease | None:
        """Claim a run for this process on any terms, and return its lease, or None."""
        terms = ClaimTerms(run_id=run_id, crashes=None)
        claimed = await self._loop.wait(self.claim_and_begin, terms, lambda claim: claim.lease)
        return claimed.work if isinstance(claimed, Begun) else None

    def claim_and_begin(self, terms: ClaimTerms, begin: Callable[[Claim], T]) -> Begun[T] | Waiting | Refused:
        """Claim a run on these terms, and begin it with the claim; or return why not.

        ``begin`` writes the start of the first step in the claim's transaction, and is called again where that was
        rolled back; its result is the ``work`` of what has begun. Blocks: to be called on a plain thread. While the
        database is slow, this waits for its turn; where the answer to its commit is lost, until it is known whether
        the run is claimed.

        Raises:
            DatabaseBusy: the database stayed too slow to claim more runs; the run stays queued.
            DatabaseUnreachable: the database does not answer; the run stays queued.
        """
        attempt = _Attempt(self._database, terms, self.id, self._settings.lease_s, begin)
        last = attempt.audit if self._settings.audit_calls else None
        with self.admission.place():
            if self.lease_manager.is_leaving:  # the process began to drain while this waited for its turn
                self._live.relay.publish_soon(terms.run_id)
                return Waiting("leaving")
            try:
                claimed = self.commits.run(terms.run_id, attempt, last=last)
            except DatabaseUnreachable:
                if attempt.begun is None or not self._is_claimed(attempt.begun.lease):
                    raise
                claimed = attempt.begun
        if isinstance(claimed, Begun):
            failpoint("claim")
        return claimed

    def _is_claimed(self, lease: Lease) -> bool:
        """Return whether a claim without an answer was committed; waits until the database says it, or ``close``."""
        while not self._closing.wait(CONFIRM_S):
            try:
                return confirm(self._database, lease, self._settings.lease_s)
            except Retryable as error:
                log.warning("it is not known yet whether a run was claimed run_id=%s: %s", lease.run_id, error)
        return False

    def _delay_s(self) -> float:
        """Seconds that the slowest pending write has taken so far; 0 while draining, so that waiting claims return."""
        return 0.0 if self.lease_manager.is_leaving else max(self.commits.delay_s, self.lease_manager.delay_s)

    async def wall_clock_ms(self) -> int:
        """Return now in milliseconds since 1970, by the clock that timers are compared with."""
        return await self._loop.read(self._clock_ms)

    def _clock_ms(self) -> int:
        with self._database.read() as connection:
            return wall_ms(connection)

    def writer(self, lease: Lease, notify: Notify) -> RunWriter:
        return RunWriter(
            lease,
            self.commits,
            self._loop,
            notify,
            on_wake=self._live.relay.publish_soon,
            on_left=self._live.hot_log.hint_stored,
            family=self._family,
            is_audited=self._settings.audit_calls,
        )

    def earlier_child(self, run_id: str) -> RepeatedRun | None:
        """Return what a child run takes from an earlier one; see ``bus.journal.forks.continued``. Blocks."""
        with self._database.read() as connection:
            return earlier_child(connection, run_id)

    def new_child(self, new: NewRun) -> AcceptedChild:
        """Return a child run for a commit of its parent; what other runs of its agent need too is stored now. Blocks.

        See ``bus.journal.acceptance.children``.
        """
        return new_child(self._database, new, self._settings)

    def lineage(self, run_id: str) -> list[Sequence[str]]:
        """Return the agents of a run and of each run above it: see ``bus.journal.log.children``. Blocks."""
        with self._database.read() as connection:
            return lineage(connection, run_id)

    def begin_writing(self, lease: Lease, writer: RunWriter) -> None:
        """Let the events of a claimed run reach the hot log; called on the loop."""
        self._live.hot_log.attach(lease.run_id, lease.fence, writer)

    async def disown(self, lease: Lease) -> None:
        """Let the run's hot log expire and extend its lease no more: it ended, was released, or has another owner."""
        self.lease_manager.untrack(lease.run_id, lease.fence)
        await self._live.hot_log.detach(lease.run_id, lease.fence)
        self._live.hot_log.nudge(self._live.keys.board(lease.tenant), lease.run_id)

    async def clear_suspect(self, lease: Lease) -> bool:
        """Clear the suspicion of a run that completed the tool calls of its crashes; False if the fence is stale."""
        return await self._loop.write(clear_suspect, self._database, lease.run_id, lease.fence)

    def unread_controls(self, run_id: str) -> list[ControlRequest]:
        """Return what clients have requested of a run and no event has answered; waits for the database."""
        with self._database.read() as connection:
            return unread_controls(connection, run_id)

    async def fail_owned(self, lease: Lease, error: CallboardError) -> None:
        """End a claimed run for an error, with a result for every call that earlier owners left open.

        Raises:
            StaleOwner: another worker owns the run now.
        """
        self._live.publish(await self._loop.write(run_end.fail_owned, self._database, lease.run_id, lease.fence, error))

    def stop(self) -> None:
        """Claim and reap no more."""
        self._closing.set()
        self.reaper.stop()


class _Attempt(Generic[T]):
    """One claim in its transaction, which may be rolled back and made again."""

    def __init__(
        self, database: Database, terms: ClaimTerms, owner: str, lease_s: float, begin: Callable[[Claim], T]
    ) -> None:
        self._database, self._terms, self._owner, self._lease_s = database, terms, owner, lease_s
        self._begin = begin
        self._claim: Claim | None = None
        self.begun: Begun[T] | None = None
        """What it began, if its transaction is committed."""

    def __call__(self, connection: Connection) -> Begun[T] | Waiting | Refused:
        self._claim = self.begun = None
        terms = self._terms
        lease = claim_on(connection, self._database, terms.run_id, self._owner, self._lease_s, terms)
        if lease is None:
            return why_not(connection, self._database, terms)
        self._claim = Claim(connection, lease)
        begun = Begun(lease, self._begin(self._claim))
        failpoint("claim-before")
        self.begun = begun
        return begun

    def audit(self, connection: Connection) -> None:
        """Record the calls that begin, behind the work of the whole group."""
        if self._claim is not None and self._claim.begun:
            audit_calls(connection, self._claim.lease, self._claim.begun)
