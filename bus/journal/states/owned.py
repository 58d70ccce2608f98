"""Transitions that only a run's owner makes: each states its fence, so that an earlier owner changes nothing.

The statements are built once: building one takes longer than executing it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import orjson
from sqlalchemy import BigInteger, Connection, Row, RowMapping, and_, bindparam, case, func, select, tuple_, update

from bus.journal.states.conditions import is_first_of_thread
from bus.journal.states.principal_now import NOW
from bus.journal.states.queue_order import IS_FIRST_OF_QUEUE
from bus.payloads import EndPayload
from bus.queues import ServedQueues
from config.database.engine import WALL_MS, Database
from config.database.tables import runs

RESERVE = 1000
"""Event numbers that an owner reserves at a time."""
Owned = dict[str, Any]
"""``id_`` and ``fence_`` of a run as its owner knows it; for a commit also ``commits_``."""


# --- claim ----------------------------------------------------------------------------------------


def claim(
    connection: Connection,
    database: Database,
    run_id: str,
    owner: str,
    lease_s: float,
    queues: ServedQueues | None = None,
    definition: tuple[str, str] | None = None,
    crashes: int | None = None,
    in_order: bool = False,
) -> RowMapping | None:
    """queued -> running: ``owner`` has a lease, the next fence and ``RESERVE`` numbers; None where it may not.

    Guard: the run is queued and the oldest open one of its thread; and it is of these queues and this definition, and
    lost at most so many owners, where these are given; ``in_order``, which needs queues and crashes: no queued run of
    its tenant and queue has a higher priority. A run whose lease expired is not claimed: the reaper counts the
    crash and requeues it first.
    """
    values = {"id_": run_id, "me": owner, "lease_ms": int(lease_s * 1000), "boot": database.lease_boot()}
    if queues is not None:
        values |= {"default": queues.default, "queues": queues.names}
    if definition is not None:
        values |= dict(zip(("agent", "digest"), definition, strict=True))
    if crashes is not None:
        values["crashes_"] = crashes
    statement = _claim(database, queues is not None, definition is not None, crashes is not None, in_order)
    return connection.execute(statement, values | database.lease_values()).mappings().first()


def place_of(connection: Connection, run_id: str) -> Row[Any] | None:
    """Return the tenant, queue and status of a run; None where there is none."""
    return connection.execute(_PLACE, {"id_": run_id}).first()


_PLACE = select(*runs.c["tenant", "queue", "status"]).where(runs.c.id == bindparam("id_"))


def claimable(connection: Connection, run_id: str) -> Row[Any] | None:
    """Return a run that could be claimed now, by what terms of a claim look at; None where it could not."""
    return connection.execute(_CLAIMABLE, {"id_": run_id}).first()


_IS_CLAIMABLE = (runs.c.id == bindparam("id_"), runs.c.status == "queued", is_first_of_thread())
_LOOKED_AT = ("tenant", "queue", "agent_id", "definition_digest", "crashes", "crashes_json")
_CLAIMABLE = select(*runs.c[_LOOKED_AT]).where(*_IS_CLAIMABLE)
_OF_QUEUES = func.coalesce(runs.c.queue, bindparam("default")).in_(bindparam("queues", expanding=True))
_OF_DEFINITION = and_(runs.c.agent_id == bindparam("agent"), runs.c.definition_digest == bindparam("digest"))
_LOST_AT_MOST = runs.c.crashes <= bindparam("crashes_")


@lru_cache(maxsize=32)
def _claim(database: Database, of_queues: bool, of_definition: bool, lost_at_most: bool, in_order: bool) -> Any:
    terms = ((of_queues, _OF_QUEUES), (of_definition, _OF_DEFINITION), (lost_at_most, _LOST_AT_MOST))
    conditions = [condition for is_asked, condition in terms if is_asked]
    return (
        update(runs)
        .where(*_IS_CLAIMABLE, *conditions, *([IS_FIRST_OF_QUEUE] if in_order else []))
        .values(
            status="running",
            reason=None,
            detail=None,
            owner=bindparam("me"),
            fence=runs.c.fence + 1,
            # Of a first owner; a later one is noted behind this statement, which returns who owned the run before.
            owned_fence=case((runs.c.fence == 0, 1), else_=runs.c.owned_fence),
            lease_until=database.lease_now + bindparam("lease_ms", type_=BigInteger),
            lease_boot=bindparam("boot"),
            reserved_to=runs.c.reserved_to + RESERVE,
            started_ms=func.coalesce(runs.c.started_ms, WALL_MS),
        )
        .returning((WALL_MS - runs.c.created_ms).label("age_ms"), *NOW, *(runs.c[name] for name in _CLAIMED))
    )


LEASE_COLUMNS = tuple(
    """
    kind thread_id thread_key turn tenant principal agent_id agent_name definition_digest queue model detached title
    fence reserved_to stop_requested created_ms steps commits crashes journal trace_id correlation_id
    credential credential_id context_json work_ms handed_from_json parent_id budget_json private origin_json
    """.split()
)
"""What a lease says of its run, each under the column's name."""
_DECODED = ("roles_json", "agents_json", "labels_json", "observers_json", "metadata_json", "crashes_json")
_CLAIMED = ("id", "declared_to", "owned_fence", *_DECODED, *LEASE_COLUMNS)


def note_owner(connection: Connection, run_id: str, upto: int) -> None:
    """Record the run's owner as its last one, and that every number up to ``upto`` is in the log or declared.

    Part of a claim.
    """
    connection.execute(_NOTE_OWNER, {"id_": run_id, "upto": upto})


_NOTE_OWNER = (
    update(runs).where(runs.c.id == bindparam("id_")).values(declared_to=bindparam("upto"), owned_fence=runs.c.fence)
)


# --- while it runs --------------------------------------------------------------------------------

_IS_OWNED = (runs.c.id == bindparam("id_"), runs.c.fence == bindparam("fence_"), runs.c.status == "running")


def extend(
    connection: Connection, database: Database, owner: str, lease_s: float, owned: Sequence[tuple[str, int]]
) -> tuple[Sequence[Row[Any]], Sequence[Row[Any]]]:
    """running -> running: extend the leases of these runs, given as ``(run_id, fence)``.

    Returns the runs whose lease was extended, and those that are this owner's and locked by another transaction
    (Postgres), each with its ``run_id``, ``fence`` and ``stop_requested``. The database's clock is read in this
    transaction, so waiting for it shortens no lease.
    """
    # The ids are given twice: SQLite finds no row by an index for pairs alone.
    which = runs.c.id.in_([run_id for run_id, _ in owned]), tuple_(runs.c.id, runs.c.fence).in_(owned)
    ours = and_(*which, runs.c.owner == owner, runs.c.status == "running")
    unlocked = runs.c.id.in_(select(runs.c.id).where(ours).with_for_update(skip_locked=True))
    query = update(runs).where(ours if database.is_sqlite else unlocked).returning(*_EXTENDED)
    extended = connection.execute(query.values(**lease_from_now(database, lease_s))).all()
    if database.is_sqlite or len(extended) == len(owned):
        return extended, []
    run_ids = {row.run_id for row in extended}
    every = connection.execute(select(*_EXTENDED).where(ours)).all()
    return extended, [row for row in every if row.run_id not in run_ids]


def lease_from_now(database: Database, lease_s: float) -> dict[str, Any]:
    """Return the columns of a lease that ends in ``lease_s``."""
    return {"lease_until": database.lease_clock() + int(lease_s * 1000), "lease_boot": database.lease_boot()}


_EXTENDED: tuple[Any, ...] = (runs.c.id.label("run_id"), runs.c.fence, runs.c.stop_requested)


def reserve(connection: Connection, run_id: str, fence: int, upto: int) -> bool:
    """running -> running: the owner may use numbers up to ``upto``; returns whether it still is the owner."""
    return connection.execute(_RESERVE, {"id_": run_id, "fence_": fence, "upto": upto}).rowcount == 1


_RESERVE = update(runs).where(*_IS_OWNED, runs.c.reserved_to <= bindparam("upto")).values(reserved_to=bindparam("upto"))


def set_crashes(connection: Connection, run_id: str, fence: int, crashes_json: str) -> bool:
    """running -> running: rewrite the notes of the run's crashes; returns whether it still is the owner."""
    return connection.execute(_CRASHES, {"id_": run_id, "fence_": fence, "notes": crashes_json}).rowcount == 1


_CRASHES = update(runs).where(*_IS_OWNED).values(crashes_json=bindparam("notes"))


def label(connection: Connection, run_id: str, fence: int, labels_json: str) -> None:
    """running -> running, or part of the commit that ends or releases it: keep the labels of what it has read."""
    connection.execute(_LABEL, {"id_": run_id, "fence_": fence, "labels": labels_json})


_LABEL = (
    update(runs)
    .where(runs.c.id == bindparam("id_"), runs.c.fence == bindparam("fence_"))
    .values(labels_json=bindparam("labels"))
)


# --- commits --------------------------------------------------------------------------------------

# Each commit increments a counter, so that a commit whose reply was lost can be distinguished from a failed one.
COMMIT = update(runs).where(*_IS_OWNED, runs.c.commits == bindparam("commits_")).values(commits=runs.c.commits + 1)


def commit(connection: Connection, owned: Owned, started: int, work_ms: int | None) -> bool:
    """running -> running: count one commit, the steps it starts and the time of work; returns whether it is the owner.

    The time of work is that of all owners; the last commit before a crash has what is known of the lost owner's.
    """
    values = {"started": started, "work_ms_": work_ms}
    return connection.execute(_COMMIT_STEPS, owned | values).rowcount == 1


_COMMIT_STEPS = COMMIT.values(steps=runs.c.steps + bindparam("started"), work_ms=bindparam("work_ms_"))


def is_committed(connection: Connection, owned: Owned) -> bool:
    """Return whether the commit that ``owned`` was about to make was made, and its reply lost."""
    return connection.execute(_COMMITTED, owned).first() is not None


_COMMITTED = select(runs.c.id).where(
    runs.c.id == bindparam("id_"),
    runs.c.fence == bindparam("fence_"),
    runs.c.commits == bindparam("commits_") + 1,
)


def finish(connection: Connection, owned: Owned, end: EndPayload, error_code: str | None) -> bool:
    """running -> the end's status: the run has no owner any more; returns whether the caller still owned it."""
    values = {**ended(end, error_code), "reserved_to": end.seq, "lease_until": None, "owner": None}
    return connection.execute(_FINISH, values | owned).rowcount == 1


_FINISH = COMMIT.values(ended_ms=WALL_MS, duration_ms=WALL_MS - runs.c.created_ms)


def ended(end: EndPayload, error_code: str | None) -> dict[str, Any]:
    """Return the columns that every end writes, with an owner or without one."""
    return {
        "status": end.status,
        "reason": end.reason,
        "steps": end.steps or 0,
        "usage_json": orjson.dumps(dict(end.usage)).decode() if end.usage else None,
        "cost_usd": end.cost_usd,
        "work_ms": end.work_ms,
        "output_json": orjson.dumps(end.output).decode() if end.output is not None else None,
        "error_code": error_code,
    }
