"""The waits for tasks of Celery applications, as workers look at them (``handlers/worker/task_watcher.py``).

The reaper leaves these timers alone, since a result cannot be read without the application's file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, select, update

from bus.journal.records.steps import WORKFLOW
from bus.journal.records.task_wait import LEFT, TASK, TaskWait, wait_of
from bus.journal.states.codes import WAKEABLE, Reason, RunStatus
from bus.journal.unowned.transitions import CommitResult, lock_run, move
from config.database.engine import Database
from config.database.tables import runs, steps, timers

MARGIN_MS = 1000
"""Milliseconds beyond a task's time until it is given up, for clocks that differ."""
BATCH = 5000
"""Most waits that are looked at together, those first whose time is over first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownWait:
    """A wait as workers see it."""

    step_id: str
    run_id: str
    wait: TaskWait
    is_waiting: bool
    """Whether its run has no owner, and waits for tasks and nothing else."""
    step_status: str
    is_given_up: bool
    """Whether its call has an outcome, or a person is asked for it."""

    @property
    def is_over(self) -> bool:
        """Whether the task's time is over."""
        return self.wait.left_ms + MARGIN_MS <= 0


def waits_for_tasks(run: Any) -> bool:
    """Return whether a run has no owner, and continues with a task's result: a workflow whatever else it waits for."""
    reasons = WAKEABLE if run.kind == WORKFLOW else (Reason.TASK,)
    return run.status == RunStatus.WAITING and run.reason in reasons


class TaskWaits:
    """All waits of the deployment; every method blocks and waits for the database."""

    def __init__(self, database: Database, publish: Callable[[CommitResult], None]) -> None:
        self._database = database
        self._publish = publish
        self.look_soon: Callable[[], None] = lambda: None
        """Has this process look at the waits at once, where it does so at all; to be called on the loop."""

    def known(self, run_id: str | None = None) -> Sequence[KnownWait]:
        """Return the waits, the first ones to be over first; those of one run where it is named."""
        return list(self._known(run_id))

    def _known(self, run_id: str | None) -> Iterator[KnownWait]:
        query = select(
            timers.c.id,
            timers.c.run_id,
            timers.c.data_json,
            LEFT,
            runs.c.status,
            runs.c.reason,
            runs.c.kind,
            steps.c.status.label("step_status"),
            steps.c.ended_ms,
        ).where(timers.c.kind == TASK, runs.c.id == timers.c.run_id, steps.c.id == timers.c.id)
        if run_id is not None:
            query = query.where(timers.c.run_id == run_id)
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(timers.c.due_ms).limit(BATCH)).all()
        for row in rows:
            yield KnownWait(
                step_id=row.id,
                run_id=row.run_id,
                wait=wait_of(row),
                is_waiting=waits_for_tasks(row),
                step_status=row.step_status,
                is_given_up=row.ended_ms is not None or row.step_status == "unknown",
            )

    def resume(self, run_id: str) -> bool:
        """waiting -> queued: every task of the run has ended, or its time is over; return whether it still waited.

        A run that also waits for a person stays: its next owner, after the answer, takes the results.
        """
        with self._database.write() as connection:
            row = lock_run(connection, run_id)
            if row is None or not waits_for_tasks(row):
                return False
            written = move(connection, row, RunStatus.QUEUED, Reason.TASK)
        self._publish(written)
        return True

    def note(self, waits: Mapping[str, TaskWait]) -> None:
        """Keep what is known of these tasks, by the ids of their steps; that one has begun is not forgotten."""
        with self._database.write() as connection:
            for step_id, wait in waits.items():
                has_begun = timers.c.data_json.contains('"has_begun":true', autoescape=True)
                timer = update(timers).where(timers.c.id == step_id, timers.c.kind == TASK, ~has_begun)
                connection.execute(timer.values(data_json=wait.facts_json))

    def forget(self, step_ids: Sequence[str]) -> None:
        """Delete the timers of these steps."""
        if step_ids:
            with self._database.write() as connection:
                connection.execute(delete(timers).where(timers.c.id.in_(step_ids), timers.c.kind == TASK))
