"""Removal of ended runs and threads with everything that refers to them, in one commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, delete, select

from bus.identity.access import require, rows_for
from bus.identity.audit.entry import Action
from bus.identity.audit.recording import record
from bus.journal.errors import RunUnknown, ThreadUnknown, run_open
from bus.journal.paging import threads_of
from bus.journal.states.conditions import delete_rows, is_open
from bus.payloads import TERMINAL
from config.database.engine import Database
from config.database.tables import messages, metadata, runs, summaries, thread_agents, threads
from config.database.timeouts import not_counted, patience
from config.identity.principal import Principal, Verb

OF_A_RUN = tuple(
    table for table in reversed(metadata.sorted_tables) if "run_id" in table.c and table.name != messages.name
)
"""The tables whose rows are deleted with their run; messages belong to the thread."""


LONG_S = 60.0
"""Seconds that a removal may last, whatever a request may: a thread may have millions of events."""


def remove_runs(database: Database, principal: Principal, run_ids: Sequence[str]) -> None:
    """Delete these runs, all or none; their messages stay in the threads.

    Raises:
        RunUnknown: one of them does not exist, or the principal does not see it.
        FORBIDDEN: the principal may not delete it.
        RUN_OPEN: one of them has not ended.
    """
    with database.write() as connection:
        require_over(connection, principal, run_ids)
        with patience(LONG_S), not_counted():
            delete_runs(connection, runs.c.id.in_(run_ids))
        for run_id in run_ids:
            record(connection, principal, Action.RUN_REMOVED, "run", run_id)


def remove_threads(
    database: Database, principal: Principal, thread_ids: Sequence[str], owner: str | None = None
) -> None:
    """Delete these threads of ``owner`` (None: the principal's own) with their messages and runs, all or none.

    Raises:
        ThreadUnknown: one of them does not exist, or the principal does not see it.
        FORBIDDEN: the principal may not delete it.
        RUN_OPEN: a run of one of them has not ended.
    """
    with database.write() as connection:
        keys = require_no_open_run(connection, principal, thread_ids, owner)
        with patience(LONG_S), not_counted():
            delete_threads(connection, keys)
        for thread_id in thread_ids:
            of = owner if owner != principal.id else None
            record(connection, principal, Action.THREAD_REMOVED, "thread", thread_id, owner=of)


def require_over(connection: Connection, principal: Principal, run_ids: Sequence[str]) -> None:
    """Check that these runs exist and have ended, and lock them until the transaction ends.

    Raises:
        RunUnknown, FORBIDDEN, RUN_OPEN: see ``remove_runs``.
    """
    query = select(runs.c.status, *_of(runs)).where(runs.c.id.in_(run_ids), rows_for(principal, Verb.SEE, runs))
    by_id = {row.id: row for row in connection.execute(query.order_by(runs.c.id).with_for_update())}
    for run_id in run_ids:
        if run_id not in by_id:
            raise RunUnknown(run_id=run_id)
        require(principal, Verb.CONTROL, by_id[run_id], "this run" if len(run_ids) == 1 else run_id)
        if by_id[run_id].status not in TERMINAL:
            raise run_open(run_id, by_id[run_id].status)
    _require_parents_over(connection, runs.c.id.in_(run_ids))


def _of(table: Table) -> list[ColumnElement[Any]]:
    """Return the id of a row, and the columns by which access to it is decided."""
    return [table.c[name] for name in ("id", "tenant", "principal", "private", "agent_id")]


def require_no_open_run(
    connection: Connection, principal: Principal, thread_ids: Sequence[str], owner: str | None = None
) -> list[int]:
    """Check that these threads have no open run, lock them until the transaction ends, and return their keys.

    Raises:
        ThreadUnknown, FORBIDDEN, RUN_OPEN: see ``remove_threads``.
    """
    query = select(threads.c.key, *_of(threads)).where(threads.c.id.in_(thread_ids), threads_of(principal, owner))
    by_id = {row.id: row for row in connection.execute(query.order_by(threads.c.key).with_for_update())}
    for thread_id in thread_ids:
        if thread_id not in by_id:
            raise ThreadUnknown(thread_id=thread_id)
        what = "this thread" if len(thread_ids) == 1 else f"thread '{thread_id[:80]}'"
        require(principal, Verb.CONTROL, by_id[thread_id], what)
    keys = [row.key for row in by_id.values()]
    # Read after locking: accepting a run takes the same lock.
    going = select(runs.c.id, runs.c.status, runs.c.thread_id).where(runs.c.thread_key.in_(keys), is_open(runs))
    first = connection.execute(going.order_by(runs.c.turn).limit(1)).first()
    if first is not None:
        raise run_open(first.id, first.status, first.thread_id)
    _require_parents_over(connection, runs.c.thread_key.in_(keys))
    return keys


def _require_parents_over(connection: Connection, which: ColumnElement[bool]) -> None:
    """Check that no parent of these runs is open: it would take a child that is gone for one that was never begun."""
    parent = runs.alias("parent")
    query = select(parent.c.id, parent.c.status).join(runs, runs.c.parent_id == parent.c.id)
    first = connection.execute(query.where(which, is_open(parent)).limit(1)).first()
    if first is not None:
        raise run_open(first.id, first.status)


def delete_threads(connection: Connection, keys: Sequence[int]) -> None:
    """Delete locked threads without an open run.

    Their runs are locked before anything is deleted, in the order in which ``remove_runs`` locks.
    """
    connection.execute(select(runs.c.id).where(runs.c.thread_key.in_(keys)).order_by(runs.c.id).with_for_update())
    delete_runs(connection, runs.c.thread_key.in_(keys))
    for table in (messages, summaries, thread_agents):
        connection.execute(delete(table).where(table.c.thread_key.in_(keys)))
    connection.execute(delete(threads).where(threads.c.key.in_(keys)))


def delete_runs(connection: Connection, which: ColumnElement[bool]) -> None:
    """Delete ended runs with everything that refers to them."""
    for table in OF_A_RUN:
        connection.execute(delete(table).where(table.c.run_id.in_(select(runs.c.id).where(which))))
    delete_rows(connection, which)
