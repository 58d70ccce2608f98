"""The living worker processes, each a row that it renews; for health, `runs --detach` and the doctor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from config.clock import stamp
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

    def with_busy(self, busy: int) -> WorkerRow:
        """Return the same worker with another load."""
        return replace(self, busy=busy)


def seen(database: Database, worker: WorkerRow) -> None:
    """Write down that this worker is alive now; rows of the long dead are taken away."""
    now = database.wall_clock()
    with database.write() as connection:
        changed = connection.execute(
            update(workers).where(workers.c.id == worker.id).values(busy=worker.busy, seen_ms=now)
        )
        if changed.rowcount == 0:
            connection.execute(delete(workers).where(workers.c.seen_ms < now - KEPT_MS))
            connection.execute(
                insert(workers).values(
                    id=worker.id, host=worker.host, pid=worker.pid, pool=worker.pool, slots=worker.slots,
                    busy=worker.busy, started_ms=now, seen_ms=now,
                )
            )  # fmt: skip


def alive(database: Database, connection: Connection) -> list[dict[str, Any]]:
    """Return the workers heard of within the last 15 seconds."""
    query = select(workers).where(workers.c.seen_ms > database.wall_clock() - ALIVE_MS).order_by(workers.c.started_ms)
    return [
        {
            "worker_id": row.id, "host": row.host, "pid": row.pid, "pool": row.pool, "slots": row.slots,
            "busy": row.busy, "started_at": stamp(row.started_ms), "seen_at": stamp(row.seen_ms),
        }
        for row in connection.execute(query)
    ]  # fmt: skip


def forget(database: Database, worker_id: str) -> None:
    """Take a worker that leaves off the list."""
    with database.write() as connection:
        connection.execute(delete(workers).where(workers.c.id == worker_id))
