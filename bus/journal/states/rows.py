"""A run's first row and its removal, and what the reaper writes to a run that may have lost its owner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, delete, insert, update

from bus.journal.states.codes import RunStatus
from config.database.engine import WALL_MS
from config.database.tables import runs


def insert_run(connection: Connection, values: Mapping[str, Any]) -> None:
    """-> queued: the run exists, without an owner, with its first event as number 1."""
    unowned = {"status": RunStatus.QUEUED, "fence": 0, "reserved_to": 1, "crashes": 0, "steps": 0, "work_ms": 0}
    connection.execute(_INSERT, {**values, **unowned, "stop_requested": False, "observers_told": True})


_INSERT = insert(runs).inline().values(created_ms=WALL_MS)


def require_writable(connection: Connection, run_id: str) -> None:
    """Check that the pages of a run whose lease expired can be written: the lease ends one millisecond earlier.

    A value has to change: SQLite commits an update that changes no byte without a write, also on a full disk. A lease
    is what a heartbeat writes, so where this fits on the disk, a heartbeat does.
    """
    connection.execute(_EARLIER, {"id_": run_id})


_EARLIER = update(runs).where(runs.c.id == bindparam("id_")).values(lease_until=runs.c.lease_until - 1)


def note_company(connection: Connection, run_id: str, owner: str, crashes_json: str) -> None:
    """running -> running: rewrite the notes of a run's crashes while its lost owner is this one."""
    connection.execute(_COMPANY, {"id_": run_id, "owner_": owner, "notes": crashes_json})


_COMPANY = (
    update(runs)
    .where(runs.c.id == bindparam("id_"), runs.c.status == "running", runs.c.owner == bindparam("owner_"))
    .values(crashes_json=bindparam("notes"))
)


def delete_rows(connection: Connection, which: ColumnElement[bool]) -> None:
    """ended -> gone: the caller (``retention/removal.py``) checks the guard and deletes what refers to the runs."""
    connection.execute(delete(runs).where(which))
