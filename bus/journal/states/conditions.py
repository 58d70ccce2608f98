"""Conditions on a run's row that several statements share; its first row, its removal, and what the reaper writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import orjson
from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Row,
    and_,
    bindparam,
    delete,
    exists,
    insert,
    or_,
    select,
    update,
)

from bus.journal.states.codes import Reason, RunStatus
from config.database.engine import WALL_MS, Database
from config.database.tables import runs, threads

OPEN = ("queued", "running", "waiting")
"""The states that are not terminal."""


def is_open(table: FromClause) -> ColumnElement[bool]:
    """Return the condition that a run has not ended; without ``IN``, which would be expanded at each execution.

    ``ended_ms IS NULL`` is redundant and lets the database use the index over a thread's open runs.
    """
    return and_(table.c.ended_ms.is_(None), or_(*(table.c.status == status for status in OPEN)))


def holds_thread(table: FromClause) -> ColumnElement[bool]:
    """Return the condition that an open run holds its thread: all do, but one that waits for a person ``aside``."""
    is_aside = and_(table.c.on_waiting == "aside", table.c.status == "waiting", table.c.reason == Reason.APPROVAL)
    return and_(is_open(table), or_(table.c.on_waiting.is_(None), ~is_aside))


@cache  # building it takes longer than executing it
def is_first_of_thread(run: FromClause = runs) -> ColumnElement[bool]:
    """Return the condition that no other run of the same thread comes before: a thread's runs execute one by one.

    Older ones come before, unless they wait for a person aside; and a younger one that is at work, since it began while
    this one waited so.
    """
    older, holder = runs.alias("older"), runs.alias("holder")
    older_ones = select(older.c.id).where(
        older.c.thread_key == run.c.thread_key, older.c.turn < run.c.turn, holds_thread(older)
    )
    at_work = (
        select(holder.c.id)
        .join(threads, threads.c.open_run == holder.c.id)
        .where(threads.c.key == run.c.thread_key, holder.c.id != run.c.id, holder.c.status == "running")
    )
    return and_(~exists(older_ones), ~exists(at_work))


def has_open_child(connection: Connection, run_id: str) -> bool:
    """Return whether a run has a child that has not ended."""
    return connection.execute(_OPEN_CHILD, {"parent_": run_id}).first() is not None


_OPEN_CHILD = select(runs.c.id).where(runs.c.parent_id == bindparam("parent_"), runs.c.ended_ms.is_(None)).limit(1)


def expired(database: Database) -> Any:
    """Return the condition that a run's lease has expired, by the database's clock."""
    past = runs.c.lease_until < database.lease_clock()
    boot = database.lease_boot()
    return past if boot is None else or_(past, runs.c.lease_boot != boot)


def is_unheld(database: Database, run: FromClause = runs) -> ColumnElement[bool]:
    """Return the condition that no process waits to claim the queued run itself; for a statement that is built once.

    Its parameters are ``boot`` and those of ``Database.lease_values``.
    """
    unheld = or_(run.c.lease_until.is_(None), run.c.lease_until < database.lease_now)
    return or_(unheld, run.c.lease_boot != bindparam("boot")) if database.is_sqlite else unheld


def has_live_owner(database: Database, connection: Connection, row: Row[Any]) -> bool:
    """Return whether a process holds a lease of this run now."""
    if row.status != "running":
        return False
    return connection.execute(select(runs.c.id).where(runs.c.id == row.id, ~expired(database))).first() is not None


# --- first row, removal, and what the reaper writes


def insert_run(connection: Connection, values: Mapping[str, Any]) -> None:
    """-> queued: the run exists, without an owner, with its first event as number 1."""
    unowned = {"status": RunStatus.QUEUED, "fence": 0, "reserved_to": 1, "crashes": 0, "steps": 0, "work_ms": 0}
    connection.execute(_INSERT, {**values, **unowned, "stop_requested": False, "observers_told": True})


_INSERT = insert(runs).inline().values(created_ms=WALL_MS)


def note_copied(connection: Connection, run_id: str, reserved_to: int, handed_from: Sequence[str]) -> None:
    """queued -> queued: the log of a run that was just inserted has copies of events up to this number.

    ``handed_from``: the agents that had handed over, by then, the run with the original events.
    """
    handed_from_json = orjson.dumps(handed_from).decode() if handed_from else None
    connection.execute(_COPIED, {"id_": run_id, "upto": reserved_to, "handed_from": handed_from_json})


_COPIED = (
    update(runs)
    .where(runs.c.id == bindparam("id_"), runs.c.fence == 0)
    .values(reserved_to=bindparam("upto"), handed_from_json=bindparam("handed_from"))
)


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
