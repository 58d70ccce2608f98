"""The living worker processes, each a row that it renews; for health, `runs --detach` and the doctor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from config.clock import epoch_ms, stamp
from config.database import Database
from config.tables import workers

ALIVE_MS = 15_000
"""A row older than this belongs to a worker that is gone."""
KEPT_MS = 24 * 3600 * 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerRow:
    """What a worker process says of itself."""

    id: str
    host: str
    pid: int
    pool: str
    slots: int
    """Runs it works on at once."""
    busy: int
    """Runs it works on now."""
    queue: str | None = None
    """The queue it consumes; None of a release that did not say."""
    version: str | None = None
    """Callboard's."""

    def with_busy(self, busy: int) -> WorkerRow:
        """Return the same worker with another load."""
        return replace(self, busy=busy)


def seen(database: Database, worker: WorkerRow, own_clock: Callable[[], int] = epoch_ms) -> None:
    """Write down that this worker is alive now, and what its own clock says beside the database's.

    Rows of the long dead are taken away.
    """
    with database.write() as connection:  # both clocks are read inside: the wait for a lock is no skew
        now, clock_ms = database.wall_clock(), own_clock()
        changed = connection.execute(
            update(workers)
            .where(workers.c.id == worker.id)
            .values(busy=worker.busy, seen_ms=now, clock_ms=clock_ms, queue=worker.queue, version=worker.version)
        )
        if changed.rowcount == 0:
            connection.execute(delete(workers).where(workers.c.seen_ms < now - KEPT_MS))
            connection.execute(
                insert(workers).values(
                    id=worker.id, host=worker.host, pid=worker.pid, pool=worker.pool, slots=worker.slots,
                    busy=worker.busy, started_ms=now, seen_ms=now, clock_ms=clock_ms, queue=worker.queue,
                    version=worker.version,
                )
            )  # fmt: skip


def alive(database: Database, connection: Connection) -> list[dict[str, Any]]:
    """Return the workers heard of within the last 15 seconds; ``skew_ms`` is how far their clocks are ahead."""
    query = select(workers).where(workers.c.seen_ms > database.wall_clock() - ALIVE_MS).order_by(workers.c.started_ms)
    return [
        {
            "worker_id": row.id, "host": row.host, "pid": row.pid, "pool": row.pool, "slots": row.slots,
            "busy": row.busy, "started_at": stamp(row.started_ms), "seen_at": stamp(row.seen_ms),
            "queue": row.queue, "version": row.version,
            "skew_ms": None if row.clock_ms is None else row.clock_ms - row.seen_ms,
        }
        for row in connection.execute(query)
    ]  # fmt: skip


def forget(database: Database, worker_id: str) -> None:
    """Take a worker that leaves off the list."""
    with database.write() as connection:
        connection.execute(delete(workers).where(workers.c.id == worker_id))
