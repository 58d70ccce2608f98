"""A look of the reaper finds what it looks for by an index, so that runs that wait cost it nothing."""

from __future__ import annotations

from typing import Any

from sqlalchemy import event, text

from bus.journal.ownership.reaper import Reaper
from config.database.engine import Database
from config.settings import Settings
from tests.bus.journal_harness import JournalHarness


def plans_of_a_look(database: Database) -> str:
    """Return how the database executes the queries of a look."""
    queries: list[tuple[str, Any]] = []

    @event.listens_for(database.engine, "before_cursor_execute")
    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        queries.append((statement, parameters))

    Reaper(database, Settings(), lambda _written: None).look()
    event.remove(database.engine, "before_cursor_execute", note)
    explain = "EXPLAIN QUERY PLAN" if database.is_sqlite else "EXPLAIN"
    with database.write() as connection:
        if not database.is_sqlite:  # of tables without rows it would read those in any case
            connection.execute(text("SET LOCAL enable_seqscan = off"))
        rows = [
            row
            for statement, parameters in queries
            if statement.startswith("SELECT")
            for row in connection.exec_driver_sql(f"{explain} {statement}", parameters)
        ]
    return "\n".join(str(row[-1]) for row in rows)


def test_open_children_and_due_timers_are_found_by_an_index(harness: JournalHarness) -> None:
    plans = plans_of_a_look(harness.database)

    if harness.database.is_sqlite:
        assert "ix_runs_open_children (ended_ms=? AND stop_requested=?)" in plans
        assert "ix_timers_due_ms (due_ms<?)" in plans
    else:
        assert "Index Cond: (due_ms <=" in plans
