"""The wait for a task of a Celery application: a timer of the call that began it.

The timer is written with the step's start, so that after any crash it is known which task a call began and until when
it may take. It goes once the step has ended and the task needs no revoking (``task_waits.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection, bindparam, delete, insert, select

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
    has_begun: bool | None = False
    """Whether its result backend has said that a worker began it; None where the backend may have lost that, because
    the connection to it was lost or it did not answer."""

    @property
    def facts_json(self) -> str:
        """What its timer keeps of it."""
        facts = {"task_id": self.task_id, "application": self.application, "task": self.task}
        return orjson.dumps(facts | {"has_begun": self.has_begun}).decode()


def begin_waits(connection: Connection, run_id: str, waits: Mapping[str, TaskWait]) -> None:
    """Write the timers of calls that begin, by the ids of their steps; in place of earlier ones of these steps."""
    for step_id, wait in waits.items():
        row = {"id": step_id, "run_id": run_id, "kind": TASK, "data_json": wait.facts_json}
        connection.execute(delete(timers).where(timers.c.id == step_id))
        connection.execute(insert(timers).values(**row, due_ms=WALL_MS + wait.left_ms))


def waits_of(connection: Connection, run_id: str) -> dict[str, TaskWait]:
    """Return the tasks that a run's calls began, by the ids of their steps."""
    return {row.id: wait_of(row) for row in connection.execute(_OF_RUN, {"run_": run_id})}


LEFT = (timers.c.due_ms - WALL_MS).label("left_ms")
_OF_RUN = select(timers.c.id, timers.c.data_json, LEFT).where(
    timers.c.run_id == bindparam("run_"), timers.c.kind == TASK
)


def wait_of(row: Any) -> TaskWait:
    """Return the wait of a timer's row, which has ``left_ms`` besides its columns."""
    return TaskWait(**orjson.loads(row.data_json), left_ms=row.left_ms)
