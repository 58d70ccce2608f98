"""Which queued run of a tenant and queue begins first: the one of the highest priority, and of these the oldest.

Runs of other tenants and queues do not matter, so that no tenant's priorities delay another tenant.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Row,
    Select,
    and_,
    bindparam,
    func,
    literal_column,
    or_,
    select,
    update,
)

from bus.journal.states.codes import Reason
from bus.journal.states.conditions import is_first_of_thread, is_unheld
from bus.queues import ServedQueues
from config.database.engine import Database
from config.database.tables import runs
from config.errors import BadRequest

PRIORITIES: Mapping[str, int] = {"low": 1, "normal": 0, "high": -1}
"""What the column has: the smaller begins first, so that an index has the next run in front. Clients see the names,
since the integers of Celery mean opposite things on Redis and on RabbitMQ."""
_NAMES = {number: name for name, number in PRIORITIES.items()}
LOOKED_AT = 100
"""Most queued runs that are looked at, in their order: a thread with more that wait behind its open run hides others,
which begin by their own wake-ups."""


def priority_number(name: str) -> int:
    """Return what the column has for this priority.

    Raises:
        BadRequest: there is none of this name.
    """
    if name not in PRIORITIES:
        raise BadRequest(f"'{name[:40]}' is not a priority; use low, normal or high.")
    return PRIORITIES[name]


def priority_name(number: int) -> str:
    """Return the name of a priority as the column has it."""
    return _NAMES[number]


def _in_order(near: FromClause, most: int) -> Select[Any]:
    """Return the ids of the queued runs that come first in the index, whose columns the order names in full.

    The status is in the text, not a parameter, so that Postgres knows how few these are.
    """
    is_queued = near.c.status == literal_column("'queued'"), near.c.ended_ms.is_(None)
    order = near.c.queue, near.c.priority, near.c.created_ms
    return select(near.c.id).where(*is_queued).order_by(*order).limit(literal_column(str(most)))


def _is_first_of_queue() -> ColumnElement[bool]:
    """Return the condition that no queued run of the same tenant and queue has a higher priority.

    Whether such a run can be claimed is looked at by ``next_of_queue`` alone, so that this costs a look in the index.
    """
    own_queue, near = func.coalesce(runs.c.queue, bindparam("default")), runs.alias("near")
    # In order and limited, not EXISTS: Postgres would read the table, since it expects that many rows are nearer.
    nearer = _in_order(near, 1).where(near.c.tenant == runs.c.tenant, near.c.priority < runs.c.priority)
    named = nearer.where(near.c.queue == own_queue)
    unnamed = nearer.where(near.c.queue.is_(None), own_queue == bindparam("default"))
    return and_(*(ids.correlate(runs).scalar_subquery().is_(None) for ids in (named, unnamed)))


# A run that this process's code has made claimable goes to this process, whatever its priority is.
IS_FIRST_OF_QUEUE = or_(runs.c.reason == Reason.CODE_VERSION, _is_first_of_queue())


def set_priority(connection: Connection, run_id: str, priority: str) -> None:
    """open -> the same: the run has another priority; part of the commit that answers the control."""
    connection.execute(_SET_PRIORITY, {"run_": run_id, "priority_": priority_number(priority)})


_SET_PRIORITY = update(runs).where(runs.c.id == bindparam("run_")).values(priority=bindparam("priority_"))


def next_of_queue(
    connection: Connection, database: Database, tenant: str, queue: str | None, queues: ServedQueues, crashes: int
) -> Row[Any] | None:
    """Return the id, agent and definition of the claimable run of a tenant and queue that begins first, or None.

    ``crashes``: how many owners it may have lost.
    """
    name = queue or queues.default
    values = {"tenant_": tenant, "queue_": name, "crashes_": crashes, "boot": database.lease_boot()}
    values |= database.lease_values()
    rows = [connection.execute(_next(database, is_default=False), values).first()]
    if name == queues.default:
        rows.append(connection.execute(_next(database, is_default=True), values).first())
    return min((row for row in rows if row is not None), key=lambda row: (row.priority, row.created_ms), default=None)


@lru_cache(maxsize=16)
def _next(database: Database, *, is_default: bool) -> Select[Any]:
    near = runs.alias("near")
    own_queue = near.c.queue.is_(None) if is_default else near.c.queue == bindparam("queue_")
    return _able(database, _in_order(near, LOOKED_AT).where(near.c.tenant == bindparam("tenant_"), own_queue))


def _able(database: Database, ids: Select[Any]) -> Select[Any]:
    """Return those of these runs that any worker of the queue may claim now.

    Not one that waits for an inline process, behind its thread, as a suspect, or for the code of a certain worker.
    """
    run = runs.alias("able")
    is_for_all = or_(run.c.reason.is_(None), run.c.reason != Reason.CODE_VERSION)
    conditions = (is_unheld(database, run), is_first_of_thread(run), is_for_all, run.c.crashes <= bindparam("crashes_"))
    columns = run.c["id", "agent_id", "definition_digest", "priority", "created_ms"]
    order = run.c.priority, run.c.created_ms
    return select(*columns).where(run.c.id.in_(ids), *conditions).order_by(*order).limit(1)
