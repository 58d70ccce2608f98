"""Runs without an owner, as workers see them: which can be claimed, which wait for code, whose end is undelivered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, delete, func, literal, or_, select, update

from bus.journal.log.events import undelivered
from bus.journal.log.progress import Progress, progress_of
from bus.journal.states.codes import CODE, Reason, RunStatus
from bus.journal.states.conditions import expired, is_first_of_thread, is_unheld
from bus.journal.states.owned import lease_from_now
from bus.journal.states.principal_now import IS_DISABLED
from bus.journal.unowned.transitions import CommitResult, lock_run, move
from bus.journal.version import require_readable_journal
from bus.messages.run_agent import FIELDS
from bus.payloads import Payload
from bus.queues import ServedQueues
from config.database.engine import Database
from config.database.tables import runs, timers

BATCH = 50


class UnownedRuns:
    """The runs that no process owns. Every method blocks and waits for the database."""

    def __init__(self, database: Database, owner: str, lease_s: float, publish: Callable[[CommitResult], None]) -> None:
        self._database = database
        self._owner = owner
        self._lease_s = lease_s
        self._publish = publish
        self._claimable = _claimable(database)

    def claimable(self, limit: int, queues: ServedQueues) -> Sequence[Any]:
        """Return queued runs of these queues that can be claimed, the oldest first."""
        parameters: dict[str, Any] = {"upto": limit, "default": queues.default, "queues": queues.names}
        parameters |= {"boot": self._database.lease_boot()} | self._database.lease_values()
        with self._database.read() as connection:
            return connection.execute(self._claimable, parameters).all()

    def defer_polling(self, run_id: str) -> None:
        """queued -> queued: workers skip the run for the time of a lease, as this process waits to run it inline."""
        with self._database.write() as connection:
            self.defer_polling_on(connection, run_id)

    def defer_polling_on(self, connection: Connection, run_id: str) -> None:
        """Do the same in a caller's transaction."""
        query = update(runs).where(runs.c.id == run_id, runs.c.status == RunStatus.QUEUED)
        connection.execute(query.values(**lease_from_now(self._database, self._lease_s)))

    def has_lost_owner(self, run_id: str) -> bool:
        """Return whether a run is running and the lease of its owner expired."""
        query = select(runs.c.id).where(runs.c.id == run_id, runs.c.status == "running", expired(self._database))
        with self._database.read() as connection:
            return connection.execute(query).first() is not None

    # --- ends that observers did not get

    def claim_undelivered(self) -> Sequence[Any]:
        """ended -> ended: return runs whose end this process has to deliver; no other does for the time of a lease."""
        waits = ~runs.c.observers_told & or_(runs.c.lease_until.is_(None), expired(self._database))
        with self._database.read() as connection:
            ids = list(connection.execute(select(runs.c.id).where(waits).limit(BATCH)).scalars())
        if not ids:
            return []
        taking = update(runs).where(runs.c.id.in_(ids), waits).returning(runs)
        with self._database.write() as connection:
            lease = lease_from_now(self._database, self._lease_s)
            return connection.execute(taking.values(owner=self._owner, **lease)).all()

    def undelivered(self, run: Any) -> Sequence[Payload]:
        """Return the events of such a run that were written since its last owner."""
        with self._database.read() as connection:
            return undelivered(connection, run.id, run.owned_fence, run.fence + 1)

    def mark_delivered(self, run_id: str) -> None:
        """ended -> ended: the run's observers have got its end."""
        query = update(runs).where(runs.c.id == run_id)
        with self._database.write() as connection:
            connection.execute(query.values(observers_told=True, owner=None, lease_until=None))

    # --- waits for code

    def waiting_for_code(self) -> Iterator[Any]:
        """Yield every run that waits for code, read in pages, so that incompatible ones do not hide compatible ones."""
        columns = runs.c["id", "kind", "agent_id", "definition_digest", "queue", "journal", "model"]
        waiting = select(*columns).where(runs.c.status == RunStatus.WAITING, runs.c.reason == Reason.CODE_VERSION)
        last: str | None = ""
        while last is not None:
            with self._database.read() as connection:
                page = connection.execute(waiting.where(runs.c.id > last).order_by(runs.c.id).limit(BATCH)).all()
            yield from page
            last = page[-1].id if page else None

    def waiting_for_principals(self) -> Sequence[Any]:
        """Return the ids and queues of runs that wait for a principal which is enabled again, the oldest first."""
        waiting = runs.c.status == RunStatus.WAITING, runs.c.reason == Reason.PRINCIPAL_DISABLED
        query = select(runs.c.id, runs.c.queue).where(*waiting, ~IS_DISABLED).order_by(runs.c.created_ms).limit(BATCH)
        with self._database.read() as connection:
            return connection.execute(query).all()

    def progress(self, run: Row[Any]) -> Progress:
        """Return how far a run came with its earlier owners.

        Raises:
            CodeVersion: this code cannot read its journal.
        """
        require_readable_journal(run.journal)
        with self._database.read() as connection:
            return progress_of(connection, run.id, run.kind)

    def resume(self, run_id: str, reason: Reason = Reason.CODE_VERSION) -> bool:
        """waiting -> queued: what the run waits for has come; return whether it still waited for it.

        That is this process's code, or with ``PRINCIPAL_DISABLED`` its principal. No wake-up is published for code: an
        incompatible worker could get it.
        """
        with self._database.write() as connection:
            row = lock_run(connection, run_id)
            if row is None or (row.status, row.reason) != (RunStatus.WAITING, reason):
                return False
            connection.execute(delete(timers).where(timers.c.run_id == run_id, timers.c.kind == CODE))
            is_announced = reason is not Reason.CODE_VERSION
            written = move(connection, row, RunStatus.QUEUED, reason, is_announced=is_announced)
        self._publish(written)
        return True


def _claimable(database: Database) -> Select[Any]:
    """Return the statement of ``claimable``, built once: building it takes longer than executing it."""
    # In the text, not a parameter: beside many runs that wait, Postgres would plan the query anew each time.
    queued = literal("queued", literal_execute=True)
    served = func.coalesce(runs.c.queue, bindparam("default")).in_(bindparam("queues", expanding=True))
    return (
        select(runs.c.id, *(runs.c[name] for name in FIELDS))
        .where(runs.c.status == queued, is_unheld(database), is_first_of_thread(), served)
        .order_by(runs.c.created_ms)
        .limit(bindparam("upto"))
    )
