"""The spans of runs that agents of the test kit made, and a log whose rows a test writes itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import insert, update

from agents.testing import AgentKit
from bus.journal.log.events import event_row
from bus.journal.tailing import RunReader
from bus.payloads import Payload
from config.database.engine import open_database
from config.database.tables import events, runs, steps
from observers.traces.spans import SpanValue, spans_of
from tests.tailed_log import TailedLog
from tests.template import upgrade_by_copy

BEGAN_MS = 1_800_000_000_000


class TracedLog(TailedLog):
    """A log of runs with steps."""

    def traced_run(self, **values: Any) -> str:
        """Insert a run that took ten seconds, and return its id."""
        return self.run(status="succeeded", **{"trace_id": "a" * 32, **values})

    def place(self, run_id: str, created_ms: int, ended_ms: int | None) -> None:
        """Set when a run began and ended."""
        with self.database.write() as connection:
            connection.execute(update(runs).where(runs.c.id == run_id).values(created_ms=created_ms, ended_ms=ended_ms))

    def step(self, run_id: str, number: int, **values: Any) -> str:
        """Insert a step that took a second."""
        id_ = f"step_{run_id}_{number}"
        at_ms = BEGAN_MS + number * 1000
        usual = {"kind": "tool", "name": "add", "status": "done", "attempt": 1, "fence": 1, "arguments_digest": ""}
        own = {"idempotency_key": "", "started_ms": at_ms, "ended_ms": at_ms + 1000, "call_id": f"call_{number}"}
        row = {"id": id_, "run_id": run_id, "number": number, **usual, **own, **values}
        with self.database.write() as connection:
            connection.execute(insert(steps).values(**row))
        return id_

    def write(self, run_id: str, *payloads: Payload) -> None:
        """Commit events in one transaction, numbered by their order."""
        with self.database.write() as connection:
            rows = [event_row(payload, run_id, "thr", 1) for payload in payloads]
            connection.execute(insert(events), rows)

    def spans(self, run_id: str, *, has_content: bool = False) -> list[SpanValue]:
        return [*spans_of(RunReader(self.database), run_id, has_content=has_content)]


@pytest.fixture
def kit() -> Iterator[AgentKit]:
    """A new kit."""
    with AgentKit() as kit:
        yield kit


@pytest.fixture
def log(each_database_url: str) -> Iterator[TracedLog]:
    with closing(open_database(each_database_url)) as database:
        upgrade_by_copy(database)
        yield TracedLog(database)
