"""Steps: what a run did that cost something or changed something. ``started`` is committed before the effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection, bindparam, func, insert, select, update

from bus.journal.leases import Lease
from config.database import WALL_MS
from config.tables import steps


@dataclass(frozen=True, kw_only=True, slots=True)
class StepStarted:
    """A step that is about to happen."""

    id: str
    kind: str
    """model, tool or wait."""
    name: str
    """The model's or the tool's."""
    arguments_digest: str
    idempotency_key: str
    """Stable for the step, whoever runs it and how often."""
    effect: str | None = None
    call_id: str | None = None
    status: str = "started"
    """``planned`` where somebody else will begin it: an owner that lets the run go between two steps."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepEnded:
    """What came of a step."""

    id: str
    status: str
    """done, failed, refused, cancelled or unknown."""
    result: Any = None
    usage: Mapping[str, int] | None = None
    cost_usd: float | None = None
    attempts: int = 1


_NUMBER = (
    select(func.coalesce(func.max(steps.c.number), 0) + 1)
    .where(steps.c.run_id == bindparam("its_run"))
    .scalar_subquery()
)
_START = insert(steps).inline().values(number=_NUMBER, started_ms=WALL_MS)
_END = (
    update(steps)
    .where(steps.c.id == bindparam("its_id"))
    .values(
        status=bindparam("new_status"), result_json=bindparam("result"), usage_json=bindparam("usage"),
        cost_usd=bindparam("cost"), attempt=bindparam("attempts"), ended_ms=WALL_MS,
    )
)  # fmt: skip


def start_steps(connection: Connection, lease: Lease, started: Sequence[StepStarted]) -> None:
    """Add steps, numbered behind those the run has."""
    for step in started:
        row = {
            "its_run": lease.run_id, "id": step.id, "run_id": lease.run_id, "kind": step.kind, "name": step.name,
            "call_id": step.call_id, "effect": step.effect, "status": step.status,
            "arguments_digest": step.arguments_digest, "idempotency_key": step.idempotency_key, "attempt": 1,
            "fence": lease.fence,
        }  # fmt: skip
        connection.execute(_START, row)


def restart_steps(connection: Connection, lease: Lease, step_ids: Sequence[str]) -> None:
    """Take steps up again that an earlier owner left; part of the claim, so it is committed before their effect."""
    if step_ids:
        again = {"status": "started", "fence": lease.fence, "attempt": steps.c.attempt + 1}
        connection.execute(update(steps).where(steps.c.id.in_(step_ids)).values(**again))


def leave_steps(connection: Connection, step_ids: Sequence[str], status: str) -> None:
    """Leave open steps as ``planned`` (never begun) or ``unknown`` (nobody can tell what came of them)."""
    if step_ids:
        connection.execute(update(steps).where(steps.c.id.in_(step_ids)).values(status=status))


def end_steps(connection: Connection, ended: Sequence[StepEnded]) -> None:
    """Write down what came of steps."""
    for step in ended:
        values = {
            "its_id": step.id, "new_status": step.status, "cost": step.cost_usd,
            "result": orjson.dumps(step.result).decode() if step.result is not None else None,
            "usage": orjson.dumps(dict(step.usage)).decode() if step.usage else None, "attempts": step.attempts,
        }  # fmt: skip
        connection.execute(_END, values)


def steps_of(connection: Connection, run_id: str) -> list[Mapping[str, Any]]:
    """Return a run's steps in order."""
    query = select(steps).where(steps.c.run_id == run_id).order_by(steps.c.number)
    return [dict(row) for row in connection.execute(query).mappings()]
