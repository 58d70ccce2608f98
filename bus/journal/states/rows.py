"""Writes to ``runs`` besides transitions: a run's first row, deferred polling, deliveries to observers, removal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, bindparam, delete, insert, or_, update

from bus.journal.states.codes import RunStatus
from bus.journal.states.conditions import expired
from bus.journal.states.owned import lease_from_now
from config.database.engine import WALL_MS, Database
from config.database.tables import runs


def insert_run(connection: Connection, values: Mapping[str, Any]) -> None:
    """-> queued: the run exists, without an owner, with its first event as number 1."""
    unowned = {"status": RunStatus.QUEUED, "fence": 0, "reserved_to": 1, "crashes": 0, "steps": 0}
    connection.execute(_INSERT, {**values, **unowned, "stop_requested": False, "observers_told": True})


_INSERT = insert(runs).inline().values(created_ms=WALL_MS)


def defer_polling(connection: Connection, database: Database, run_id: str, lease_s: float) -> None:
    """queued -> queued: pollers skip the run for ``lease_s``, as the process that accepted it waits to execute it."""
    query = update(runs).where(runs.c.id == run_id, runs.c.status == RunStatus.QUEUED)
    connection.execute(query.values(**lease_from_now(database, lease_s)))


def require_writable(connection: Connection, run_id: str) -> None:
    """Check that the database takes writes, by an update that changes nothing."""
    connection.execute(_SAME, {"id_": run_id})


_SAME = update(runs).where(runs.c.id == bindparam("id_")).values(crashes=runs.c.crashes)


def undelivered(database: Database) -> ColumnElement[bool]:
    """Return the condition that a run's end was not delivered to observers, and that no worker is delivering it."""
    return ~runs.c.observers_told & or_(runs.c.lease_until.is_(None), expired(database))


def claim_undelivered(
    connection: Connection, database: Database, run_ids: Sequence[str], owner: str, lease_s: float
) -> Sequence[Row[Any]]:
    """ended -> ended: return those of these runs whose ends ``owner`` has to deliver within ``lease_s``."""
    taking = update(runs).where(runs.c.id.in_(run_ids), undelivered(database)).returning(runs)
    return connection.execute(taking.values(owner=owner, **lease_from_now(database, lease_s))).all()


def mark_delivered(connection: Connection, run_id: str) -> None:
    """ended -> ended: the end was delivered to observers."""
    connection.execute(_DELIVERED, {"id_": run_id})


_DELIVERED = update(runs).where(runs.c.id == bindparam("id_")).values(observers_told=True, owner=None, lease_until=None)


def delete_rows(connection: Connection, which: ColumnElement[bool]) -> None:
    """ended -> gone: the caller (``retention/removal.py``) checks the guard and deletes what refers to the runs."""
    connection.execute(delete(runs).where(which))
