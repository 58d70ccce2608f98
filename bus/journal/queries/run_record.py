"""A run with everything the journal has about it, for the crash lab and the invariants that it checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, Row, bindparam, select, tuple_

from bus.journal.log.events import log_page
from bus.journal.log.line import Line
from bus.journal.records.steps import steps_of
from bus.payloads import TERMINAL
from config.database.tables import approvals, controls, events, messages, runs, summaries, threads

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
    controls: Sequence[Facts] = ()
    """What clients requested of it, in order."""
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


class SummaryRecord(NamedTuple):
    """A summary with the messages that it replaces."""

    row: Facts
    messages: Sequence[Facts]
    """In reading order: each message's role and data."""


def runs_of_thread(connection: Connection, thread_id: str) -> Sequence[Row[Any]]:
    """Return the rows of this thread's runs, by their turns."""
    return connection.execute(select(runs).where(runs.c.thread_id == thread_id).order_by(runs.c.turn)).all()


def read_record(connection: Connection, thread_id: str) -> RunRecord | None:
    """Return what the journal has about this thread's first run; None if none was accepted."""
    return next(iter(read_records(connection, thread_id)), None)


def read_records(connection: Connection, thread_id: str) -> list[RunRecord]:
    """Return what the journal has about each run of this thread, by their turns."""
    return [record_of(connection, row) for row in runs_of_thread(connection, thread_id)]


def descendants_of(connection: Connection, run_ids: Sequence[str]) -> Sequence[Row[Any]]:
    """Return the rows of the child runs of these runs, and of theirs, generation by generation."""
    rows: list[Row[Any]] = []
    while run_ids:
        children = connection.execute(select(runs).where(runs.c.parent_id.in_(run_ids)).order_by(runs.c.id)).all()
        rows += children
        run_ids = [child.id for child in children]
    return rows


def read_summaries(connection: Connection, thread_id: str) -> list[SummaryRecord]:
    """Return the summaries of this thread, in the order in which they were made."""
    thread = select(threads.c.key).where(threads.c.id == thread_id).scalar_subquery()
    rows = connection.execute(
        select(summaries).where(summaries.c.thread_key == thread).order_by(summaries.c.created_ms)
    )
    return [SummaryRecord(dict(row._mapping), _replaced(connection, row)) for row in rows.all()]


def _replaced(connection: Connection, summary: Row[Any]) -> list[Facts]:
    values = {"thread_": summary.thread_key, "turn_": summary.upto_turn, "number_": summary.upto_number}
    return [_message(row) for row in connection.execute(_REPLACED, values)]


def _message(row: Any) -> dict[str, Any]:
    return {"role": row.role, **orjson.loads(row.data_json)}


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
        messages=[_message(message) for message in stored],
        rows=[LogRow(*values) for values in connection.execute(_ROWS, run)],
        approvals=[dict(mapping) for mapping in connection.execute(_APPROVALS, run).mappings()],
        controls=read_controls(connection, row.id),
        open_run=connection.execute(_OPEN, run).scalar(),
    )


def read_controls(connection: Connection, run_id: str) -> list[Facts]:
    """Return what clients requested of a run, in order."""
    return [dict(mapping) for mapping in connection.execute(_CONTROLS, {"run_": run_id}).mappings()]


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
_CONTROLS = select(controls).where(controls.c.run_id == bindparam("run_")).order_by(controls.c.id)
_REPLACED = (
    select(messages.c.role, messages.c.data_json)
    .where(messages.c.thread_key == bindparam("thread_"))
    .where(tuple_(messages.c.turn, messages.c.number) <= tuple_(bindparam("turn_"), bindparam("number_")))
    .order_by(messages.c.turn, messages.c.number)
)
_OPEN = select(threads.c.open_run).where(threads.c.key == bindparam("thread_"))
