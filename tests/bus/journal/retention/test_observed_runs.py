"""What an observer has not had is kept for it: up to a time for a reliable one, without end for a critical one."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import insert, select, update

from bus.journal.retention.retention import sweep
from bus.journal.tailing.cursors import ObserverCursors
from config.clock import epoch_ms
from config.database.tables import events, failed_deliveries, observer_cursors, runs
from config.settings import Settings
from tests.bus.ended_runs import old
from tests.bus.journal_harness import JournalHarness


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(  # type: ignore[call-arg]  # pydantic-settings' own
        _env_file=None, state_dir=tmp_path / "state", retain_runs_days=1, retain_events_days=1, retain_threads_days=1
    )


def observe(harness: JournalHarness, delivery: str, start: str = "beginning") -> ObserverCursors:
    cursors = ObserverCursors(harness.database)
    cursors.register("ledger", "my:Ledger", delivery, None, start)
    return cursors


def is_kept(harness: JournalHarness, settings: Settings, run_id: str) -> bool:
    """Sweep, and return whether the run and its whole log are there."""
    with harness.database.read() as connection:
        before = len(connection.execute(select(events.c.seq).where(events.c.run_id == run_id)).all())
    sweep(harness.database, settings, pause=lambda _: None)
    with harness.database.read() as connection:
        after = len(connection.execute(select(events.c.seq).where(events.c.run_id == run_id)).all())
        there = connection.execute(select(runs.c.id).where(runs.c.id == run_id)).first() is not None
    return there and before == after


@pytest.mark.parametrize(
    ("delivery", "days", "expected"),
    [
        ("critical", 10, True),
        ("critical", 10_000, True),
        ("reliable", 10, True),
        ("reliable", 32, False),
        ("best_effort", 10, False),
    ],
)
def test_a_run_that_an_observer_has_not_had(
    harness: JournalHarness, settings: Settings, delivery: str, days: int, expected: bool
):
    run_id = old(harness, days=days)
    observe(harness, delivery)

    assert is_kept(harness, settings, run_id) is expected


def test_a_run_that_all_observers_have_had_goes(harness: JournalHarness, settings: Settings):
    run_id = old(harness, days=10)
    observe(harness, "critical", start="now")

    assert not is_kept(harness, settings, run_id)


def test_one_partition_that_is_behind_keeps_the_log(harness: JournalHarness, settings: Settings):
    run_id = old(harness, days=10)
    observe(harness, "reliable", start="now")
    with harness.database.write() as connection:
        connection.execute(update(observer_cursors).where(observer_cursors.c.partition == 7).values(position=0))

    assert is_kept(harness, settings, run_id)


@pytest.mark.parametrize(
    ("delivery", "days", "expected"), [("reliable", 10, True), ("reliable", 32, False), ("critical", 10_000, True)]
)
def test_a_run_with_a_failed_delivery_waits_for_it(
    harness: JournalHarness, settings: Settings, delivery: str, days: int, expected: bool
):
    run_id = old(harness, days=days)
    observe(harness, delivery, start="now")
    letter = {"observer": "ledger", "partition": 0, "run_id": run_id, "position": 1, "seq": 1, "type": "status"}
    with harness.database.write() as connection:
        connection.execute(
            insert(failed_deliveries).values(
                **letter, state="dead", attempts=3, error="OSError", first_ms=epoch_ms(), next_ms=None
            )
        )

    assert is_kept(harness, settings, run_id) is expected


def test_an_observer_that_was_removed_keeps_nothing(harness: JournalHarness, settings: Settings):
    run_id = old(harness, days=10)
    observe(harness, "critical").remove("ledger")

    assert not is_kept(harness, settings, run_id)
