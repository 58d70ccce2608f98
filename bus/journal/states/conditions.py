"""Conditions on a run's row that several statements share."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, FromClause, Row, and_, exists, or_, select

from config.database.engine import Database
from config.database.tables import runs

OPEN = ("queued", "running", "waiting")
"""The states that are not terminal."""


def is_open(table: FromClause) -> ColumnElement[bool]:
    """Return the condition that a run has not ended; without ``IN``, which would be expanded at each execution.

    ``ended_ms IS NULL`` is redundant and lets the database use the index over a thread's open runs.
    """
    return and_(table.c.ended_ms.is_(None), or_(*(table.c.status == status for status in OPEN)))


@cache  # building it takes longer than executing it
def is_first_of_thread() -> ColumnElement[bool]:
    """Return the condition that no older run of the same thread is open: a thread's runs execute one by one."""
    older = runs.alias("older")
    return ~exists(
        select(older.c.id).where(older.c.thread_key == runs.c.thread_key, older.c.turn < runs.c.turn, is_open(older))
    )


def expired(database: Database) -> Any:
    """Return the condition that a run's lease has expired, by the database's clock."""
    past = runs.c.lease_until < database.lease_clock()
    boot = database.lease_boot()
    return past if boot is None else or_(past, runs.c.lease_boot != boot)


def has_live_owner(database: Database, connection: Connection, row: Row[Any]) -> bool:
    """Return whether a process holds a lease of this run now."""
    if row.status != "running":
        return False
    return connection.execute(select(runs.c.id).where(runs.c.id == row.id, ~expired(database))).first() is not None
