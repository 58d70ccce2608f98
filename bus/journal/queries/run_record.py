"""A run with everything the journal has about it, for the crash lab and the invariants that it checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, Row, bindparam, select

from bus.journal.log.events import log_page
from bus.journal.log.line import Line
from bus.journal.records.steps import steps_of
from bus.payloads import TERMINAL
from config.database.tables import approvals, events, messages, runs, threads

Facts = Mapping[str, Any]


class LogRow(NamedTuple):
    """One row of the log in SQL: an event, or a block of sealed deltas."""

    seq: int
    type: str
    fence: int
    step_id: str | None
    position: int
    """Its place among the events of all runs, which is the commits' order within a thread."""


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """A run with everything the journal has about it."""

    run: Facts
    """Its row, and its ``output``."""
    steps: Sequence[Facts]
    messages: Sequence[Facts]
    """Its part of the history, in order: each message's role and data."""
    lines: Sequence[Line]
    """Its log, in order."""
    rows: Sequence[LogRow]
    approvals: Sequence[Facts]
    open_run: str | None = None
    """The open run that its thread names."""

    @property
    def is_over(self) -> bool:
        return self.run["status"] in TERMINAL

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """The log, decoded."""
        return [orjson.loads(line.data) for line in self.lines]

    @property
    def story(self) -> list[tuple[str, ...]]:
        """The conversation, without what differs between equal runs."""
        story = []
        for message in self.messages:
            called = sorted(call["name"] for call in message.get("tool_calls") or ())
            parts = (message["role"], message.get("content"), message.get("result"), message.get("outcome"), called)
            story.append(tuple(str(part) for part in parts))
        return sorted(story)  # results of concurrent calls come in any order


def run_of_thread(connection: Connection, thread_id: str) -> Row[Any] | None:
    """Return the row of this thread's one run; None if none was accepted."""
    return connection.execute(select(runs).where(runs.c.thread_id == thread_id)).first()


def read_record(connection: Connection, thread_id: str) -> RunRecord | None:
    """Return what the journal has about this thread's one run; None if none was accepted."""
    row = run_of_thread(connection, thread_id)
    return record_of(connection, row) if row is not None else None


def record_of(connection: Connection, row: Any) -> RunRecord:
    """Return what the journal has about the run of this row."""
    run = {"run_": row.id, "thread_": row.thread_key}
    lines: list[Line] = []
    while page := log_page(connection, row.id, row.thread_id, lines[-1].seq if lines else 0)[0]:
        lines += page
    stored = connection.execute(_MESSAGES, run)
    return RunRecord(
        run={**row._mapping, "output": orjson.loads(row.output_json) if row.output_json else None},
        steps=steps_of(connection, row.id),
        lines=lines,
        messages=[{"role": message.role, **orjson.loads(message.data_json)} for message in stored],
        rows=[LogRow(*values) for values in connection.execute(_ROWS, run)],
        approvals=[dict(mapping) for mapping in connection.execute(_APPROVALS, run).mappings()],
        open_run=connection.execute(_OPEN, run).scalar(),
    )


# Built once: tests of the journal read a record after each operation.
_MESSAGES = (
    select(messages.c.role, messages.c.data_json)
    .where(messages.c.run_id == bindparam("run_"), messages.c.thread_key == bindparam("thread_"))  # forks have copies
    .order_by(messages.c.number)
)
_ROWS = (
    select(events.c.seq, events.c.type, events.c.fence, events.c.step_id, events.c.position)
    .where(events.c.run_id == bindparam("run_"))
    .order_by(events.c.first_seq)
)
_APPROVALS = select(approvals).where(approvals.c.run_id == bindparam("run_"))
_OPEN = select(threads.c.open_run).where(threads.c.key == bindparam("thread_"))
