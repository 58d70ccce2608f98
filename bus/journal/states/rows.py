"""A run's first row and its removal, and a write that changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, delete, insert, update

from bus.journal.states.codes import RunStatus
from config.database.engine import WALL_MS
from config.database.tables import runs


def insert_run(connection: Connection, values: Mapping[str, Any]) -> None:
    """-> queued: the run exists, without an owner, with its first event as number 1."""
    unowned = {"status": RunStatus.QUEUED, "fence": 0, "reserved_to": 1, "crashes": 0, "steps": 0}
    connection.execute(_INSERT, {**values, **unowned, "stop_requested": False, "observers_told": True})


_INSERT = insert(runs).inline().values(created_ms=WALL_MS)


def require_writable(connection: Connection, run_id: str) -> None:
    """Check that the database takes writes, by an update that changes nothing."""
    connection.execute(_SAME, {"id_": run_id})


_SAME = update(runs).where(runs.c.id == bindparam("id_")).values(crashes=runs.c.crashes)


def delete_rows(connection: Connection, which: ColumnElement[bool]) -> None:
    """ended -> gone: the caller (``retention/removal.py``) checks the guard and deletes what refers to the runs."""
    connection.execute(delete(runs).where(which))
