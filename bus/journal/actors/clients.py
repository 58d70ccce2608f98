"""What clients do with runs: start them, stop them, and answer their questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from bus.journal.acceptance import accept as accepting
from bus.journal.acceptance.accept import Accepted, Record
from bus.journal.acceptance.callers_transaction import CallersTransaction
from bus.journal.acceptance.new_run import NewRun
from bus.journal.acceptance.run_limits import run_limits
from bus.journal.actors.live import Live
from bus.journal.approvals import Decision
from bus.journal.controls import SIGNAL, STEER, STOP, Control
from bus.journal.decisions import decisions
from bus.journal.decisions.decisions import Decided, Guard, guarded
from bus.journal.decisions.links import UsedLink
from bus.journal.forks.continued import RepeatedRun, repeatable
from bus.journal.forks.fork import Fork, fork_thread
from bus.journal.idempotency import IdempotencyKey
from bus.journal.mailbox import control as controlling
from bus.journal.mailbox import queue
from bus.journal.outbox import announce
from bus.journal.records.recorded_calls import Origin
from bus.journal.unowned.transitions import CommitResult
from bus.journal.unowned.upgrade import RunVersion, upgrade
from bus.loop import ProcessLoop
from bus.sealing import Original
from config.database.engine import Database
from config.identity.principal import Principal
from config.settings import Settings


class Clients:
    """Accepts runs, and does or requests what clients want of them. From any thread and any process."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        loop: ProcessLoop,
        live: Live,
        *,
        guard: Callable[[], Guard],
        control_local: Callable[[str, Control], bool],
    ) -> None:
        """``guard`` returns what checks a person's answers now; ``control_local`` does it where this process owns the
        run, and returns whether it does."""
        self._settings = settings
        self._database = database
        self._loop = loop
        self._live = live
        self._guard = guard
        self._control_local = control_local

    def accept(self, new: NewRun, record: Record = announce) -> Accepted:
        """Return once the run is committed; see ``bus.journal.acceptance.accept``."""
        limits = run_limits(self._settings, new.principal.tenant)
        accepted = accepting.accept(self._database, new, record, limits, is_audited=self._settings.audit_calls)
        self._publish_delivery(accepted)
        return accepted

    def _publish_delivery(self, accepted: Accepted) -> None:
        """Publish what a message for a busy thread has done to the thread's open run."""
        delivery, written = accepted.delivery, accepted.delivery.stopped
        if written is None:
            return
        self._live.publish(written)
        if not written.events:
            control = STEER if delivery.delivered == "steered" else STOP
            self._loop.call_soon(lambda: self._reach(written.run_id, control))

    def accept_on(self, transaction: CallersTransaction, new: NewRun, record: Record = announce) -> Accepted:
        """Return a run that exists once the caller commits; see ``bus.journal.acceptance.callers_transaction``."""
        with self._database.naming_errors():
            limits = run_limits(self._settings, new.principal.tenant)
            is_audited = self._settings.audit_calls
            accepted = accepting.accept_on(
                self._database, transaction.connection, new, record, limits, is_audited=is_audited
            )
        if accepted.is_new:
            transaction.after_commit(partial(self._live.relay.publish_once_committed, accepted.run_id))
        transaction.after_commit(partial(self._publish_delivery, accepted))
        return accepted

    def fork(self, principal: Principal, thread_id: str, message: int, new_thread_id: str | None = None) -> Fork:
        """Make a thread with copies of a thread's messages up to this number; see ``bus.journal.forks.fork``."""
        return fork_thread(self._database, principal, thread_id, message, new_thread_id)

    def repeatable(self, principal: Principal, origin: Origin) -> RepeatedRun:
        """Return what a rerun or a retry of a run takes from it; see ``bus.journal.forks.continued``."""
        with self._database.read() as connection:
            return repeatable(connection, principal, origin)

    def control(
        self,
        principal: Principal,
        run_id: str,
        requested_control: Control,
        *,
        by: str,
        idempotency: IdempotencyKey | None = None,
        data: Mapping[str, Any] | None = None,
        originals: Sequence[Original] = (),
        expected_status: str | None = None,
    ) -> CommitResult:
        """Do or request what the verb says; see ``bus.journal.mailbox.control``. From any thread and any process."""
        written = controlling.control(
            self._database,
            principal,
            run_id,
            requested_control,
            by,
            idempotency,
            data=data,
            originals=originals,
            expected_status=expected_status,
            wait_s=self._settings.approval_ttl_s,
        )
        self._live.publish(written)
        if not written.events and not requested_control.is_done(written.status):
            self._loop.call_soon(lambda: self._reach(run_id, requested_control))
            if requested_control is STOP:  # beside the parent's owner, which would be one wait more for each level
                self._live.stop_children(run_id)
        return written

    def upgrade(self, principal: Principal, run_id: str, to: RunVersion, *, by: str) -> CommitResult:
        """Move a waiting run to another version of its agent; see ``bus.journal.unowned.upgrade``."""
        written = upgrade(self._database, principal, run_id, to, by=by)
        self._live.publish(written)
        return written

    def queue_of(
        self, principal: Principal, thread_id: str, *, owner: str | None = None, after: int = 0, limit: int = 200
    ) -> tuple[list[dict[str, Any]], int | None]:
        """Return a page of what waits in a thread, the next one first; see ``bus.journal.mailbox.queue``."""
        return queue.listed(self._database, principal, thread_id, owner=owner, after=after, limit=limit)

    def edit_queued(
        self,
        principal: Principal,
        thread_id: str,
        run_id: str,
        *,
        content: str | None = None,
        originals: Sequence[Original] = (),
        place: queue.Place | None = None,
    ) -> CommitResult:
        """Give a message that waits another text, another place, or both; see ``bus.journal.mailbox.queue``."""
        changes: Any = {"content": content, "originals": originals, "place": place}
        written, stopped = queue.edit(self._database, principal, thread_id, run_id, principal.id, **changes)
        self._live.publish(written)
        if stopped is not None:
            self._live.publish(stopped)
            if not stopped.events:
                self._loop.call_soon(lambda: self._reach(stopped.run_id, STOP))
        return written

    def remove_queued(self, principal: Principal, thread_id: str, run_id: str) -> CommitResult:
        """Cancel the run of a message that waits; no model gets the message."""
        written = queue.remove(self._database, principal, thread_id, run_id, principal.id)
        self._live.publish(written)
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
            INPUT_BLOCKED: the answer has what may not be kept.
        """
        answer = guarded(answer, self._guard())
        decided = decisions.decide(
            self._database,
            principal,
            run_id,
            approval_id,
            answer,
            by=by,
            idempotency=idempotency,
            link=link,
            local=self._settings.local_principal,
        )
        self._live.publish(decided.written)
        if not decided.written.events:  # of a workflow whose owner is at another branch
            self._loop.call_soon(lambda: self._reach(run_id, SIGNAL))
        return decided

    def _reach(self, run_id: str, control: Control) -> None:
        """Do it if this process owns the run; otherwise nudge its owner to read the request now."""
        if not self._control_local(run_id, control):
            self._live.hot_log.nudge(self._live.keys.nudges, f"{control.kind} {run_id}")
