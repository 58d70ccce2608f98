"""The child runs of a run: those by which its calls were delegated, as the parent's next owner reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection, bindparam, or_, select

from bus.journal.log.events import last_error
from bus.payloads import TERMINAL
from config.database.tables import events, runs


@dataclass(frozen=True, kw_only=True, slots=True)
class ChildRun:
    """The child of one step."""

    run_id: str
    agent_id: str
    status: str
    output: Any = None
    problem: str = ""
    """Of a child that failed: its error's code and sentence."""
    labels: frozenset[str] = frozenset()
    """What it has read, and what its parent had read before."""
    is_in_log: bool = False
    """Whether the parent's log has its end."""

    @property
    def is_over(self) -> bool:
        return self.status in TERMINAL


def children_of(connection: Connection, run_id: str, step_ids: Sequence[str]) -> Mapping[str, ChildRun]:
    """Return the children of these steps of a run, by the step's id."""
    rows = connection.execute(_CHILDREN, {"parent_": run_id, "steps_": list(step_ids)}).all() if step_ids else ()
    ended = any(row.status in TERMINAL for row in rows)
    logged = states_logged(connection, run_id) if ended else {}
    return {row.parent_step: _child(connection, row, logged.get(row.id) == row.status) for row in rows}


_CHILDREN = select(
    *runs.c["id", "parent_step", "agent_id", "status", "output_json", "labels_json", "error_code"],
).where(runs.c.parent_id == bindparam("parent_"), runs.c.parent_step.in_(bindparam("steps_", expanding=True)))


def _child(connection: Connection, row: Any, is_in_log: bool) -> ChildRun:
    error = last_error(connection, row.id) if row.error_code is not None else None
    return ChildRun(
        run_id=row.id,
        agent_id=row.agent_id,
        status=row.status,
        output=orjson.loads(row.output_json) if row.output_json is not None else None,
        problem=f"{row.error_code}: {error.message}" if error is not None else row.error_code or "",
        labels=frozenset(orjson.loads(row.labels_json or "[]")),
        is_in_log=is_in_log,
    )


def states_logged(connection: Connection, run_id: str) -> dict[str, str]:
    """Return the last state that a run's log has of each child, by the child's id."""
    query = select(events.c.data_json).where(events.c.run_id == run_id, events.c.type == "child")
    logged = map(orjson.loads, connection.execute(query.order_by(events.c.seq)).scalars())
    return {event["child_run_id"]: event["status"] for event in logged}


def open_children(connection: Connection, run_id: str) -> list[str]:
    """Return the children of a run that have not ended, in the order of their ids."""
    return list(connection.execute(_OPEN, {"parent_": run_id}).scalars())


_OPEN = select(runs.c.id).where(runs.c.parent_id == bindparam("parent_"), runs.c.ended_ms.is_(None)).order_by(runs.c.id)


def orphans(connection: Connection, most: int) -> list[str]:
    """Return open children whose parent has ended or was removed, and that were not asked to stop."""
    parent = runs.alias("parent")
    query = select(runs.c.id).outerjoin(parent, parent.c.id == runs.c.parent_id)
    query = query.where(runs.c.parent_id.is_not(None), runs.c.ended_ms.is_(None), ~runs.c.stop_requested)
    query = query.where(or_(parent.c.id.is_(None), parent.c.ended_ms.is_not(None)))
    return list(connection.execute(query.order_by(runs.c.id).limit(most)).scalars())


def lineage(connection: Connection, run_id: str) -> list[Sequence[str]]:
    """Return the agents of a run and of each run above it, its own first.

    Of a run that was handed over they are all that have had it, in order; the last one has it now.
    """
    agents: list[Sequence[str]] = []
    above: str | None = run_id
    while above is not None:
        row = connection.execute(_ABOVE, {"run_": above}).first()
        agents += [[*orjson.loads(row.handed_from_json or "[]"), row.agent_id]] if row is not None else []
        above = row.parent_id if row is not None else None
    return agents


_ABOVE = select(*runs.c["agent_id", "handed_from_json", "parent_id"]).where(runs.c.id == bindparam("run_"))
