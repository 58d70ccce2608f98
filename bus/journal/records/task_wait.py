"""The wait for a task of a Celery application: a timer of the call that began it.

The timer is written with the step's start, so that after any crash it is known which task a call began and until when
it may take. It goes once the step has ended and the task needs no revoking (``task_waits.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection, bindparam, delete, insert, select, update

from config.database.engine import WALL_MS
from config.database.tables import timers

TASK = "task"
"""The kind of these timers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskWait:
    """The task that one call began, or is about to begin."""

    task_id: str
    application: str
    task: str
    """The task's name in Celery."""
    left_ms: int
    """Milliseconds from now until its time is over."""
    has_begun: bool = False
    """Whether its result backend has said that a worker began it, which the backend may have lost since."""
    backend: str | None = None
    """The incarnation of its result backend before it was sent; another one may have lost that a worker began it. None
    where the backend did not say, or the owner that sent it died before it released the run."""
    timeout_ms: int = 0
    """Milliseconds from the wait's beginning until its time is over."""

    @property
    def facts_json(self) -> str:
        """What its timer keeps of it."""
        return orjson.dumps({name: getattr(self, name) for name in _KEPT}).decode()


_KEPT = ("task_id", "application", "task", "has_begun", "backend", "timeout_ms")


def keep_backends(connection: Connection, waits: Mapping[str, TaskWait | None]) -> None:
    """Add the backends' incarnations to the timers of tasks that runs are released for, by the ids of their steps."""
    for step_id, wait in waits.items():
        if wait is not None and wait.backend is not None:
            timer = update(timers).where(timers.c.id == step_id, timers.c.kind == TASK)
            connection.execute(timer.values(data_json=wait.facts_json))


def begin_waits(connection: Connection, run_id: str, waits: Mapping[str, TaskWait]) -> None:
    """Write the timers of calls that begin, by the ids of their steps; in place of earlier ones of these steps."""
    for step_id, wait in waits.items():
        row = {"id": step_id, "run_id": run_id, "kind": TASK, "data_json": wait.facts_json}
        connection.execute(delete(timers).where(timers.c.id == step_id))
        connection.execute(insert(timers).values(**row, due_ms=WALL_MS + wait.left_ms))


def waits_of(connection: Connection, run_id: str) -> dict[str, TaskWait]:
    """Return the tasks that a run's calls began, by the ids of their steps."""
    return {row.id: wait_of(row) for row in connection.execute(_OF_RUN, {"run_": run_id})}


def has_waits(connection: Connection, run_id: str) -> bool:
    """Return whether a task that a run's calls began may be under way."""
    return connection.execute(_OF_RUN, {"run_": run_id}).first() is not None


LEFT = (timers.c.due_ms - WALL_MS).label("left_ms")
_OF_RUN = select(timers.c.id, timers.c.data_json, LEFT).where(
    timers.c.run_id == bindparam("run_"), timers.c.kind == TASK
)


def wait_of(row: Any) -> TaskWait:
    """Return the wait of a timer's row, which has ``left_ms`` besides its columns."""
    facts = orjson.loads(row.data_json)
    return TaskWait(**{name: facts[name] for name in _KEPT if name in facts}, left_ms=row.left_ms)
