"""The reaper: finds what nobody looks after any more, and sees to it that every run ends or goes on.

Every worker and web process has one, so it does not matter which of them are alive. Whatever two of
them do at the same moment is decided by the run's row.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import orjson
from sqlalchemy import Connection, Row, bindparam, or_, select, update

from bus.journal.approvals import EXPIRY
from bus.journal.crashes import UNHEARD, crash, is_suspect, suspect_beside
from bus.journal.endings import cancelled, end_run, failed
from bus.journal.keeper import AGAIN_S
from bus.journal.last_calls import LAST_CALL, LastCalls
from bus.journal.leases import expired, is_first_of_thread
from bus.journal.outbox import announce
from bus.journal.owner_id import is_gone
from bus.journal.ownerless import Written, has_live_owner, lock_run
from bus.journal.parting import CODE
from bus.journal.retention import sweep
from config.database import Database
from config.errors import (
    ApprovalExpired,
    CallboardError,
    CodeVersion,
    DatabaseBusy,
    DatabaseFull,
    DatabaseReadOnly,
    DatabaseUnreachable,
    RunCrashed,
)
from config.failpoints import failpoint
from config.settings import Settings
from config.tables import approvals, runs, timers

log = logging.getLogger(__name__)

BATCH = 200
FOR_ALL = (DatabaseUnreachable, DatabaseFull, DatabaseReadOnly)
"""What goes wrong with every run alike, so that the others need not be tried."""
SWEEP_EVERY_S = 3600.0
"""Seconds between two looks for what retention takes away."""
Spread = Callable[[Written], None]
"""Tells viewers and workers what was written without an owner."""


class _Stopped(Exception):
    """A sweep is cut off: the process ends."""


class Reaper:
    """One thread a process; it looks every ``reap_s`` seconds, or up to a third sooner.

    Retention's sweep has another: a first one may last for hours, and no run can wait that long.
    """

    def __init__(
        self, database: Database, settings: Settings, spread: Spread, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._settings = settings
        self._spread = spread
        self._stopping = threading.Event()
        self._starting = threading.Lock()
        self._last_calls = LastCalls(LAST_CALL * min(settings.beat_s, AGAIN_S), clock)
        self._thread: threading.Thread | None = None
        self._sweeping: threading.Thread | None = None
        self._next_sweep_s = time.monotonic() + random.uniform(0.1, 1.0) * SWEEP_EVERY_S  # no secret

    def start(self) -> None:
        """Begin to look."""
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="callboard-reaper", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Look and sweep no more."""
        self._stopping.set()
        for thread in (self._thread, self._sweeping):
            if thread is not None:
                thread.join(2)

    def look(self) -> list[Written]:
        """Do what is due now, and return what was done."""
        done: list[Written] = []
        found = lapsed(self._database)
        self._last_calls.keep(found)
        for run_id in found:
            done += self._done(run_id, partial(self.reap, run_id))
        for run_id, timer_id in due(self._database):
            done += self._done(run_id, partial(fire, self._database, run_id, timer_id))
        return done

    def reap(self, run_id: str) -> Written | None:
        """Do what ``reap`` does, once the run's owner had its last call; None before that."""
        try:
            return reap(self._database, run_id, self._last_calls)
        except CallboardError:  # a database that takes no writes hears of nobody
            self._last_calls.forget(run_id)
            raise

    def _done(self, run_id: str, work: Callable[[], Written | None]) -> list[Written]:
        """Do what is due for one run and tell of it; where it goes wrong, the others must not wait for it."""
        try:
            written = work()
            if written is not None:
                self._spread(written)
                return [written]
        except CallboardError as wrong:
            if isinstance(wrong, FOR_ALL) or (isinstance(wrong, DatabaseBusy) and self._database.is_sqlite):
                raise
            log.warning("the reaper comes back to a run run_id=%s: %s", run_id, wrong)
        except Exception:
            log.exception("the reaper stumbled over a run run_id=%s", run_id)
        return []

    def _work(self) -> None:
        while not self._stopping.wait(self._pause_s()):
            try:
                self.look()
                self._begin_sweep()
            except CallboardError as wrong:
                self._last_calls.keep(())
                log.warning("the reaper looks again: %s", wrong)
            except Exception:  # whatever it is, the next look must come
                log.exception("the reaper stumbled")

    def _pause_s(self) -> float:
        pause_s = self._settings.reap_s * random.uniform(0.7, 1.0)  # no secret
        return min(pause_s, self._last_calls.time_s) if self._last_calls else pause_s

    def _begin_sweep(self) -> None:
        """Sweep beside what else there is to do, if it is time and the last sweep is through."""
        is_sweeping = self._sweeping is not None and self._sweeping.is_alive()
        if time.monotonic() >= self._next_sweep_s and not is_sweeping:
            self._next_sweep_s = time.monotonic() + SWEEP_EVERY_S
            self._sweeping = threading.Thread(target=self._sweep, name="callboard-sweep", daemon=True)
            self._sweeping.start()

    def _sweep(self) -> None:
        try:
            sweep(self._database, self._settings, pause=self._pause)
        except _Stopped:
            log.info("retention goes on when this process is started again")
        except CallboardError as wrong:
            log.warning("retention goes on in an hour: %s", wrong)
        except Exception:
            log.exception("retention stumbled")

    def _pause(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise _Stopped


# --- runs whose owner is gone ---------------------------------------------------------------------


def lapsed(database: Database) -> list[str]:
    """Return running runs nobody owns any more: the lease ran out, or its process has ended on this machine."""
    # Suspects last: as long as one is there, it explains the loss of the runs that its process had beside it.
    running = select(runs.c.id).where(runs.c.status == "running").order_by(runs.c.crashes)
    with database.read() as connection:
        found = list(connection.execute(running.where(expired(database)).limit(BATCH)).scalars())
        owners = select(runs.c.owner).where(runs.c.status == "running").distinct()
        gone = [owner for owner in connection.execute(owners).scalars() if is_gone(owner)]
        if gone:
            found += connection.execute(running.where(runs.c.owner.in_(gone)).limit(BATCH)).scalars()
    return list(dict.fromkeys(found))


def reap(database: Database, run_id: str, last_calls: LastCalls | None = None) -> Written | None:
    """Send a run whose owner is gone back to the queue, or end it: stopped meanwhile, or suspect before.

    With ``last_calls`` an owner that was only not heard of has its last call first. Done twice, the second time
    finds nothing to do.
    """
    with database.write() as connection:
        row = lock_run(connection, run_id)
        if row is None:
            return None
        is_dead_here = row.status == "running" and is_gone(row.owner)
        if row.status != "running" or (has_live_owner(database, connection, row) and not is_dead_here):
            return None
        if not is_dead_here and last_calls is not None and not last_calls.is_over(connection, row):
            return None
        seen = "its process ended" if is_dead_here else UNHEARD
        known = orjson.loads(row.crashes_json or "[]")
        crashes = [*known, crash(connection, row.id, row.fence, row.owner, seen)]
        noted = {"crashes": row.crashes + 1, "crashes_json": orjson.dumps(crashes).decode()}
        if row.stop_requested:
            written = end_run(connection, row, cancelled(row), **noted)
        elif is_suspect(row.crashes, known):  # so it shared its process with no other one
            written = end_run(connection, row, failed(row, _obituary(crashes), "dead"), **noted)
        elif suspect_beside(connection, row):
            written = _requeue(connection, row, {})
        else:
            written = _requeue(connection, row, noted)
    log.warning("run lost its owner run_id=%s crashes=%s during=%s", run_id, row.crashes + 1, crashes[-1]["during"])
    failpoint("ownerless")
    return written


def _requeue(connection: Connection, row: Row[Any], noted: dict[str, Any]) -> Written:
    """Nothing is told: the next owner declares what this one left, and says that it is another attempt."""
    back = {"status": "queued", "reason": "its worker was lost", "owner": None, "lease_until": None}
    connection.execute(update(runs).where(runs.c.id == row.id).values(**(back | noted)))
    announce(connection, row.id)
    return Written(run_id=row.id, thread_id=row.thread_id, status="queued", fence=row.fence, wake=row.id)


def _obituary(crashes: list[dict[str, Any]]) -> RunCrashed:
    return RunCrashed(len(crashes), "; ".join(dict.fromkeys(one["during"] for one in crashes)))


# --- timers ---------------------------------------------------------------------------------------


def due(database: Database) -> list[tuple[str, str]]:
    """Return the timers that are due, each with its run."""
    query = (
        select(timers.c.run_id, timers.c.id)
        .where(timers.c.due_ms <= database.wall_clock())
        .order_by(timers.c.due_ms)
        .limit(BATCH)
    )
    with database.read() as connection:
        return [(row.run_id, row.id) for row in connection.execute(query)]


def fire(database: Database, run_id: str, timer_id: str) -> Written | None:
    """Do what the timer was set for, and take it away.

    A question nobody answered in time ends its run, and so does code that never came.
    """
    with database.write() as connection:
        row = lock_run(connection, run_id)
        timer = connection.execute(select(timers).where(timers.c.id == timer_id)).first()
        if row is None or timer is None:
            return None
        connection.execute(timers.delete().where(timers.c.id == timer_id))
        wrong = _expired(connection, row, timer)
        return end_run(connection, row, failed(row, wrong)) if wrong is not None else None


def _expired(connection: Connection, run: Row[Any], timer: Row[Any]) -> CallboardError | None:
    """Return why the run fails now, if it still waits for what the timer was set for."""
    if run.status != "waiting":
        return None
    if timer.kind == CODE and run.reason == CodeVersion.code:
        return CodeVersion(f"no worker came whose code fits this run: {run.detail}")
    unanswered = select(approvals.c.id).where(approvals.c.id == timer.id, approvals.c.decision.is_(None))
    if timer.kind == EXPIRY and connection.execute(unanswered).first() is not None:
        return ApprovalExpired()
    return None


# --- runs that wait in the queue ------------------------------------------------------------------


def claimable(connection: Connection, database: Database, limit: int) -> Sequence[Any]:
    """Return queued runs that may begin, the oldest first; for workers that do not rely on being told."""
    asked = {"upto": limit, "boot": database.lease_boot()} | database.lease_values()
    return connection.execute(_claimable(database), asked).all()


@lru_cache(maxsize=4)
def _claimable(database: Database) -> Any:
    """Return the statement of ``claimable``; building it costs more than running it, and every worker asks often."""
    unheld = or_(runs.c.lease_until.is_(None), runs.c.lease_until < database.lease_now)
    if database.is_sqlite:
        unheld = or_(unheld, runs.c.lease_boot != bindparam("boot"))
    return (
        select(runs.c.id, runs.c.agent_id, runs.c.thread_id, runs.c.detached, runs.c.definition_digest)
        .where(runs.c.status == "queued", unheld, is_first_of_thread())
        .order_by(runs.c.created_ms)
        .limit(bindparam("upto"))
    )
