"""The reaper: requeues or ends runs whose lease expired or whose process ended, and fires timers.

Every worker and web process has one. Two reapers may look at the same run at once: the run's row decides.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson
from sqlalchemy import Connection, Row, bindparam, select, update

from bus.journal.approvals import EXPIRY
from bus.journal.decisions.decisions import decide_by_expiry
from bus.journal.errors import APPROVAL_EXPIRED, PAUSE_EXPIRED, RUN_CRASHED, CodeVersion, PrincipalDisabled
from bus.journal.log.children import orphans
from bus.journal.mailbox.control import WAIT_S, stop_child, stop_locked
from bus.journal.mailbox.unwatched import leave_unwatched
from bus.journal.ownership.lease_manager import RETRY_S
from bus.journal.ownership.workers import is_gone
from bus.journal.records.on_disconnect import DISCONNECT
from bus.journal.records.steps import WAIT, WORKFLOW, left_to_undo
from bus.journal.records.task_wait import TASK
from bus.journal.retention.retention import sweep
from bus.journal.run_end import end_run
from bus.journal.states.codes import CODE, LIMIT, STOPPED, WAKEABLE, Ending, Reason, RunStatus
from bus.journal.states.conditions import expired, has_live_owner
from bus.journal.states.crashes import (
    GRACE_BEATS,
    LEASE_EXPIRED,
    LeaseGrace,
    crash,
    is_suspect,
    suspect_beside,
    was_alone,
)
from bus.journal.unowned.transitions import CommitResult, lock_run, move, requeue
from config.database.engine import READ_ONCE, WALL_MS, Database
from config.database.errors import DatabaseBusy, DatabaseFull, DatabaseReadOnly, DatabaseUnreachable
from config.database.tables import approvals, runs, steps, timers
from config.errors import CallboardError
from config.failpoints import failpoint
from config.settings import Settings

log = logging.getLogger(__name__)

BATCH = 200
FOR_ALL = (DatabaseUnreachable, DatabaseFull, DatabaseReadOnly)
"""Errors that concern every run alike, so that the remaining runs are not tried."""
SWEEP_EVERY_S = 3600.0
"""Seconds between two sweeps of retention."""
Publisher = Callable[[CommitResult], None]
"""Sends viewers the events that were written without an owner, and publishes wake-ups (``journal.live.publish``)."""


class _Stopped(Exception):
    """The sweep is interrupted, since the process ends."""


class Reaper:
    """One thread per process; it looks every ``reap_s`` seconds, or up to 30 % sooner.

    Retention's sweep has a thread of its own: a first sweep may last for hours, and lost runs cannot wait for it.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        publish: Publisher,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._settings = settings
        self._publish = publish
        self._stopping = threading.Event()
        self._starting = threading.Lock()
        self._grace = LeaseGrace(GRACE_BEATS * min(settings.beat_s, RETRY_S), clock)
        self._thread: threading.Thread | None = None
        self._sweeping: threading.Thread | None = None
        self._next_sweep_s = time.monotonic() + random.uniform(0.1, 1.0) * SWEEP_EVERY_S  # no secret

    def start(self) -> None:
        """Start the thread; a second call does nothing."""
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="callboard-reaper", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Stop looking and sweeping, and wait up to 2 s for each thread."""
        self._stopping.set()
        for thread in (self._thread, self._sweeping):
            if thread is not None:
                thread.join(2)

    def look(self) -> list[CommitResult]:
        """Requeue or end all lost runs and fire all due timers, and return what was written."""
        done: list[CommitResult] = []
        run_ids = unowned_runs(self._database)
        self._grace.keep(run_ids)
        for run_id in run_ids:
            done += self._done(run_id, partial(self.reap, run_id))
        with self._database.read() as connection:
            orphaned = orphans(connection, BATCH)
        for run_id in orphaned:  # the process that ended the parent did not come to it
            done += self._done(run_id, partial(stop_child, self._database, run_id))
        return done + self.fire()

    def fire(self, run_id: str | None = None) -> list[CommitResult]:
        """Fire all due timers, or only those of one run, and return what was written."""
        done: list[CommitResult] = []
        for due_id, timer_id in due(self._database, run_id):
            work = partial(fire, self._database, due_id, timer_id, self._settings.approval_ttl_s)
            done += self._done(due_id, work)
        return done

    def reap(self, run_id: str) -> CommitResult | None:
        """Call ``reap`` with this reaper's lease grace; None while the grace lasts."""
        try:
            return reap(self._database, run_id, self._grace)
        except CallboardError:  # while the database takes no writes, no owner can extend its lease
            self._grace.forget(run_id)
            raise

    def _done(self, run_id: str, work: Callable[[], CommitResult | None]) -> list[CommitResult]:
        """Do ``work`` for one run and publish the result; an error of this run does not keep the others waiting."""
        try:
            written = work()
            if written is not None:
                self._publish(written)
                return [written]
        except CallboardError as error:
            if isinstance(error, FOR_ALL) or (isinstance(error, DatabaseBusy) and self._database.is_sqlite):
                raise
            log.warning("the reaper tries a run again run_id=%s: %s", run_id, error)
        except Exception:
            log.exception("the reaper failed for a run run_id=%s", run_id)
        return []

    def _work(self) -> None:
        while not self._stopping.wait(self._pause_s()):
            try:
                self.look()
                self._begin_sweep()
            except CallboardError as error:
                self._grace.keep(())
                log.warning("the reaper tries again: %s", error)
            except Exception:  # the thread must survive any error
                log.exception("the reaper failed")

    def _pause_s(self) -> float:
        pause_s = self._settings.reap_s * random.uniform(0.7, 1.0)  # no secret
        return min(pause_s, self._grace.time_s) if self._grace else pause_s

    def _begin_sweep(self) -> None:
        """Start a sweep on its own thread if one is due and the last one has ended."""
        is_sweeping = self._sweeping is not None and self._sweeping.is_alive()
        if time.monotonic() >= self._next_sweep_s and not is_sweeping:
            self._next_sweep_s = time.monotonic() + SWEEP_EVERY_S
            self._sweeping = threading.Thread(target=self._sweep, name="callboard-sweep", daemon=True)
            self._sweeping.start()

    def _sweep(self) -> None:
        try:
            sweep(self._database, self._settings, pause=self._pause)
        except _Stopped:
            log.info("retention continues after the next start of this process")
        except CallboardError as error:
            log.warning("retention continues in an hour: %s", error)
        except Exception:
            log.exception("retention failed")

    def _pause(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise _Stopped


# --- runs whose owner is gone ---------------------------------------------------------------------


def unowned_runs(database: Database) -> list[str]:
    """Return running runs without an owner: the lease expired, or the owner's process on this machine has ended.

    Suspects are last: while one is there, the crashes of the other runs of its process do not count. Where there are
    more runs than are returned, suspects are left for later.
    """
    running = select(runs.c.id, runs.c.crashes, runs.c.crashes_json)
    running = running.where(runs.c.status == "running").order_by(runs.c.crashes).limit(BATCH)
    with database.read() as connection:
        rows = list(connection.execute(running.where(expired(database))))
        owners = select(runs.c.owner).where(runs.c.status == "running").distinct()
        gone = [owner for owner in connection.execute(owners).scalars() if is_gone(owner)]
        if gone:
            rows += connection.execute(running.where(runs.c.owner.in_(gone)))
    suspects = {row.id for row in rows if is_suspect(row.crashes, orjson.loads(row.crashes_json or "[]"))}
    ids = dict.fromkeys(row.id for row in rows)
    others = [run_id for run_id in ids if run_id not in suspects]
    is_all = len(rows) < BATCH
    return others + [run_id for run_id in ids if run_id in suspects] if is_all or not others else others


def reap(database: Database, run_id: str, grace: LeaseGrace | None = None) -> CommitResult | None:
    """Requeue a run that lost its owner, or end it if it was asked to stop or was a suspect, alone with its owner.

    With ``grace``, a run whose lease expired is left until the grace is over. A second call finds nothing to do.
    """
    with database.write() as connection:
        row = lock_run(connection, run_id)
        if row is None:
            return None
        has_ended = row.status == "running" and is_gone(row.owner)
        if row.status != "running" or (has_live_owner(database, connection, row) and not has_ended):
            return None
        if not has_ended and grace is not None and not grace.is_over(connection, row):
            return None
        seen = "its process ended" if has_ended else LEASE_EXPIRED
        history = orjson.loads(row.crashes_json or "[]")
        note = crash(connection, row.id, row.fence, row.owner, seen)
        is_suspected = is_suspect(row.crashes, history)
        is_alone = is_suspected and was_alone(connection, row)
        is_beside = not is_suspected and suspect_beside(connection, row)
        crashes = [*history, note | ({"alone": is_alone} if is_suspected else {})]
        is_counted = not is_beside or row.stop_requested
        if row.stop_requested and not left_to_undo(connection, row.id):
            written = end_run(connection, row, STOPPED, crashes)
        elif is_alone:
            during = "; ".join(dict.fromkeys(entry["during"] for entry in crashes))
            written = end_run(
                connection, row, Ending.failed(RUN_CRASHED(crashes=len(crashes), during=during), "dead"), crashes
            )
        else:
            written = requeue(connection, row, crashes if is_counted else None)
    held = "" if is_counted else " (not held against it: a suspect was beside it)"
    counted = row.crashes + is_counted
    log.warning("run lost its owner run_id=%s crashes=%s%s during=%s", run_id, counted, held, crashes[-1]["during"])
    failpoint("unowned")
    return written


# --- timers ---------------------------------------------------------------------------------------


def due(database: Database, run_id: str | None = None) -> list[tuple[str, str]]:
    """Return the timers, or those of one run, that are due, each with its run; those of tasks are the workers'."""
    is_due = [timers.c.due_ms <= READ_ONCE, timers.c.kind != TASK]
    is_due += [timers.c.run_id == run_id] if run_id is not None else []
    query = select(timers.c.run_id, timers.c.id).where(*is_due).order_by(timers.c.due_ms).limit(BATCH)
    with database.read() as connection:
        return [(row.run_id, row.id) for row in connection.execute(query)]


def fire(database: Database, run_id: str, timer_id: str, wait_s: int = WAIT_S) -> CommitResult | None:
    """Delete a due timer, and end its run if that still waits for the timer's question or for compatible code.

    A question may have an answer for this case instead (``OnExpiry``), with which the run continues. ``wait_s``: for
    how many seconds a run waits that is paused because it has no viewers.
    """
    with database.write() as connection:
        row = lock_run(connection, run_id)
        timer = connection.execute(select(timers).where(timers.c.id == timer_id)).first()
        if row is None or timer is None:
            return None
        question = connection.execute(_UNANSWERED, {"id_": timer.id}).first()
        if _is_at_another_branch(row) and (timer.kind == WAIT or question is not None):
            connection.execute(_LATER, {"id_": timer_id})
            return None
        if timer.kind == DISCONNECT:
            return leave_unwatched(database, connection, row, timer_id, wait_s)
        connection.execute(timers.delete().where(timers.c.id == timer_id))
        if timer.kind == LIMIT:
            return stop_locked(database, connection, row)
        if timer.kind == WAIT:
            is_open = connection.execute(_OPEN_STEP, {"id_": timer.id}).first() is not None
            is_awaited = is_open and row.status == "waiting" and row.reason in WAKEABLE
            return move(connection, row, RunStatus.QUEUED, Reason.SIGNAL) if is_awaited else None
        may_continue = question is not None and (question.on_expiry is not None or row.kind == WORKFLOW)
        if row.status == "waiting" and question is not None and may_continue:
            return decide_by_expiry(connection, row, question)
        error = _expired(connection, row, timer)
        return end_run(connection, row, Ending.failed(error)) if error is not None else None


def _is_at_another_branch(run: Row[Any]) -> bool:
    """Return whether a workflow is at work while one of its branches waits for what a timer is about."""
    return bool(run.kind == WORKFLOW) and run.status in (RunStatus.QUEUED, RunStatus.RUNNING)


LATER_MS = 5000
"""Milliseconds until a timer is looked at again whose run has an owner."""
_OPEN_STEP = select(steps.c.id).where(steps.c.id == bindparam("id_"), steps.c.ended_ms.is_(None))
_LATER = update(timers).where(timers.c.id == bindparam("id_")).values(due_ms=WALL_MS + LATER_MS)
_UNANSWERED = select(approvals).where(approvals.c.id == bindparam("id_"), approvals.c.decision.is_(None))


def _expired(connection: Connection, run: Row[Any], timer: Row[Any]) -> CallboardError | None:
    """Return the error that ends the run, or None if it no longer waits for what the timer is about."""
    if run.status != "waiting":
        return None
    if timer.kind == CODE and run.reason == CodeVersion.code:
        return CodeVersion(f"no worker came whose code fits this run: {run.detail}")
    if timer.kind == CODE and run.reason == PrincipalDisabled.code:
        return PrincipalDisabled(principal=run.principal)
    if timer.kind == CODE and run.reason == Reason.PAUSED:
        return PAUSE_EXPIRED()
    if timer.kind == EXPIRY and connection.execute(_UNANSWERED, {"id_": timer.id}).first() is not None:
        return APPROVAL_EXPIRED()
    return None
