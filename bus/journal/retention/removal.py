"""Taking runs and threads away for good: never one that is open, and all of one in the same commit."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, delete, select

from bus.journal.leases import is_open
from bus.journal.who import Who
from bus.payloads import TERMINAL
from config.database import Database
from config.errors import RunOpen, RunUnknown, ThreadUnknown
from config.patience import patience
from config.tables import messages, metadata, runs, threads

OF_A_RUN = tuple(
    table for table in reversed(metadata.sorted_tables) if "run_id" in table.c and table.name != messages.name
)
"""The tables whose rows go with their run; what was said belongs to the thread."""


LONG_S = 60.0
"""Seconds a removal may last: a thread may have millions of events."""


def remove_runs(database: Database, who: Who, run_ids: Sequence[str]) -> None:
    """Nothing is left of these runs but what was said in their threads; all of them go, or none.

    Raises:
        RunUnknown: there is no such run, or it is somebody else's.
        RunOpen: it has not ended.
    """
    with database.write() as connection:
        require_over(connection, who, run_ids)
        with patience(LONG_S):
            delete_runs(connection, runs.c.id.in_(run_ids))


def remove_threads(database: Database, who: Who, thread_ids: Sequence[str]) -> None:
    """Nothing is left of these threads, their messages and their runs; all of them go, or none.

    Raises:
        ThreadUnknown: there is no such thread, or it is somebody else's.
        RunOpen: a run of it has not ended.
    """
    with database.write() as connection:
        keys = require_quiet(connection, who, thread_ids)
        with patience(LONG_S):
            delete_threads(connection, keys)


def require_over(connection: Connection, who: Who, run_ids: Sequence[str]) -> None:
    """These runs exist and have ended; they are locked as long as the transaction lasts.

    Raises:
        RunUnknown, RunOpen: see ``remove_runs``.
    """
    query = select(runs.c.id, runs.c.status).where(
        runs.c.id.in_(run_ids), runs.c.tenant == who.tenant, runs.c.principal == who.principal
    )
    found = {row.id: row.status for row in connection.execute(query.order_by(runs.c.id).with_for_update())}
    for run_id in run_ids:
        if run_id not in found:
            raise RunUnknown(run_id)
        if found[run_id] not in TERMINAL:
            raise RunOpen(run_id, found[run_id])


def require_quiet(connection: Connection, who: Who, thread_ids: Sequence[str]) -> list[int]:
    """Return the keys of these threads, which have no open run; they are locked as long as the transaction lasts.

    Raises:
        ThreadUnknown, RunOpen: see ``remove_threads``.
    """
    query = select(threads.c.id, threads.c.key).where(
        threads.c.id.in_(thread_ids), threads.c.tenant == who.tenant, threads.c.principal == who.principal
    )
    found = {row.id: row.key for row in connection.execute(query.order_by(threads.c.key).with_for_update())}
    for thread_id in thread_ids:
        if thread_id not in found:
            raise ThreadUnknown(thread_id)
    keys = list(found.values())
    # Looked at behind the lock: who accepts a run takes the same one.
    going = select(runs.c.id, runs.c.status, runs.c.thread_id).where(runs.c.thread_key.in_(keys), is_open(runs))
    first = connection.execute(going.order_by(runs.c.turn).limit(1)).first()
    if first is not None:
        raise RunOpen(first.id, first.status, first.thread_id)
    return keys


def delete_threads(connection: Connection, keys: Sequence[int]) -> None:
    """Delete threads without an open run, which are locked already.

    Their runs are locked before anything of them is deleted, as whoever removes only a run does.
    """
    connection.execute(select(runs.c.id).where(runs.c.thread_key.in_(keys)).order_by(runs.c.id).with_for_update())
    delete_runs(connection, runs.c.thread_key.in_(keys))
    connection.execute(delete(messages).where(messages.c.thread_key.in_(keys)))
    connection.execute(delete(threads).where(threads.c.key.in_(keys)))


def delete_runs(connection: Connection, which: ColumnElement[bool]) -> None:
    """Delete ended runs with everything that refers to them."""
    for table in OF_A_RUN:
        connection.execute(delete(table).where(table.c.run_id.in_(select(runs.c.id).where(which))))
    connection.execute(delete(runs).where(which))
