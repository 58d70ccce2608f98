"""What a run left behind in SQL, read by a life at its end and handed to the parent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection, select

from bus.journal.events import read_after
from bus.journal.line import Line
from bus.journal.runs import summary
from bus.journal.steps import steps_of
from bus.journal.threads import get_thread, list_messages
from bus.journal.who import Who
from bus.payloads import TERMINAL
from config.tables import approvals, events, runs

Facts = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A run with everything that was written down of it."""

    run: Facts
    steps: Sequence[Facts]
    messages: Sequence[Facts]
    lines: Sequence[Line]
    """Its log, in order."""
    fences: Sequence[int]
    """Along the log."""
    answers: Sequence[tuple[str, str]]
    """What a person was asked: the step's id, and what was decided."""
    open_run: str | None = None
    """The run its thread believes to be at work."""

    @property
    def is_over(self) -> bool:
        return self.run["status"] in TERMINAL

    @property
    def events(self) -> list[dict[str, Any]]:
        """The log, decoded."""
        return [orjson.loads(line.data) for line in self.lines]

    @property
    def story(self) -> list[tuple[str, ...]]:
        """The conversation, without what differs from run to run."""
        told = []
        for message in self.messages:
            called = sorted(call["name"] for call in message.get("tool_calls", ()))
            parts = (message["role"], message.get("content"), message.get("result"), message.get("outcome"), called)
            told.append(tuple(str(part) for part in parts))
        return sorted(told)  # results of calls made at once come in any order


def find(connection: Connection, thread_id: str) -> Found | None:
    """Return the one run of this thread; None where none was accepted."""
    row = connection.execute(select(runs).where(runs.c.thread_id == thread_id)).first()
    if row is None:
        return None
    lines: list[Line] = []
    while page := read_after(connection, row.id, thread_id, lines[-1].seq if lines else 0):
        lines += page
    fences = select(events.c.fence).where(events.c.run_id == row.id).order_by(events.c.first_seq)
    asked = select(approvals.c.step_id, approvals.c.decision).where(approvals.c.run_id == row.id)
    return Found(
        run=summary(row), steps=steps_of(connection, row.id), messages=list_messages(connection, Who(), thread_id),
        lines=lines, fences=list(connection.execute(fences).scalars()),
        answers=[(row.step_id, row.decision or "nothing") for row in connection.execute(asked)],
        open_run=get_thread(connection, Who(), thread_id).get("open_run"),
    )  # fmt: skip
