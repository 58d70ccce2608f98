"""A machine's clock may be wrong by hours, or be set while runs are under way: nothing that counts goes by it."""

from __future__ import annotations

import threading
import time

import pytest
from sqlalchemy import select, update

from bus.journal.approvals import EXPIRY
from bus.journal.outbox import Relay
from bus.journal.ownership.leases import beat
from bus.journal.ownership.reaper import due, unowned_runs
from bus.journal.ownership.workers import WorkerRow, Workers, alive
from bus.journal.queries.runs import Runs
from bus.journal.retention.retention import sweep
from bus.payloads import EndPayload
from config.database.engine import WALL_MS, Database
from config.database.tables import outbox, runs, timers
from config.identity.principal import Principal
from config.settings import Settings
from tests.bus.journal_harness import JournalHarness, assert_whole, cancel, claim

HOUR_S, YEARS_S = 3600, 3 * 365 * 24 * 3600
SKEWS = [HOUR_S, -HOUR_S, -YEARS_S]


class Clock:
    """This machine's wall clock; its monotonic ones cannot be set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        self._right = time.time_ns

    def set(self, seconds: float) -> None:
        """Set it so far ahead of the right time."""
        right = self._right
        self._patch.setattr(time, "time_ns", lambda: right() + int(seconds * 1e9))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def many_machines(postgres_harness: JournalHarness) -> JournalHarness:
    """A database that machines share."""
    return postgres_harness


def now_ms(database: Database) -> int:
    with database.read() as connection:
        return int(connection.execute(select(WALL_MS)).scalar_one())


# --- on both databases ----------------------------------------------------------------------------


@pytest.mark.parametrize("skew_s", SKEWS)
def test_a_lease_is_kept_and_lost_whatever_the_owners_clock_says(
    harness: JournalHarness, clock: Clock, skew_s: int
) -> None:
    clock.set(skew_s)
    owner = harness.own(owner="own_skewed", lease_s=60)
    run_id = owner.lease.run_id
    clock.set(0)

    assert unowned_runs(harness.database) == []
    assert claim(harness.database, run_id, "own_other", 60) is None
    clock.set(skew_s)
    assert [heartbeat.run_id for heartbeat in beat(harness.database, "own_skewed", 60, [(run_id, 1)])] == [run_id]
    assert unowned_runs(harness.database) == []
    harness.expire_lease(run_id)
    assert unowned_runs(harness.database) == [run_id]
    assert harness.claim(run_id, "own_other") is not None


def test_a_clock_set_back_while_a_run_is_under_way_changes_its_times_alone(
    harness: JournalHarness, clock: Clock
) -> None:
    owner = harness.own(lease_s=60)
    owner.notify_of_claim()
    harness.do(owner.say("one", "two"))
    clock.set(-600)

    assert unowned_runs(harness.database) == []
    assert beat(harness.database, "own_1", 60, [(owner.lease.run_id, 1)])
    harness.do(owner.say("three"))
    harness.do(owner.message("onetwothree"))
    (end,) = harness.do(owner.end())

    lines = harness.lines(owner.lease.run_id)
    assert_whole(lines)
    assert [line.type for line in lines] == ["status", "status", "response", "response", "response", "message", "end"]
    assert isinstance(end, EndPayload)
    assert Runs(harness.database).get(Principal(), owner.lease.run_id)["duration_ms"] >= 0


def test_a_wake_up_from_the_future_counts_as_overdue(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id
    with harness.database.write() as connection:  # the database's clock was set back by ten minutes since
        connection.execute(update(outbox).values(created_ms=WALL_MS + 600_000))
    published = threading.Event()
    relay = Relay(harness.database, lambda message: published.set() if message.run_id == run_id else None, every_s=0.02)

    relay.start()
    try:
        assert published.wait(10)
    finally:
        relay.stop()


# --- where machines share a database --------------------------------------------------------------


@pytest.mark.postgres
@pytest.mark.parametrize("skew_s", SKEWS)
def test_a_wake_up_is_overdue_by_the_databases_clock(many_machines: JournalHarness, clock: Clock, skew_s: int) -> None:
    harness = many_machines
    clock.set(skew_s)
    harness.accept()

    ((created_ms,),) = harness.rows(select(outbox.c.created_ms))
    assert abs(now_ms(harness.database) - created_ms) < 60_000


@pytest.mark.postgres
@pytest.mark.parametrize("skew_s", SKEWS)
def test_runs_keep_their_order_on_whichever_machine_they_were_accepted(
    many_machines: JournalHarness, clock: Clock, skew_s: int
) -> None:
    harness, accepted = many_machines, []
    for ahead_s in (0, skew_s, 0):
        clock.set(ahead_s)
        accepted.append(harness.accept().run_id)

    assert harness.claimable() == accepted


@pytest.mark.postgres
@pytest.mark.parametrize("skew_s", SKEWS)
def test_a_timer_is_due_by_the_databases_clock(many_machines: JournalHarness, clock: Clock, skew_s: int) -> None:
    harness = many_machines
    run_id, now = harness.accept().run_id, now_ms(harness.database)
    with harness.database.write() as connection:
        for name, in_ms in (("past", -60_000), ("soon", 60_000)):
            row = {"id": name, "run_id": run_id, "kind": EXPIRY, "due_ms": now + in_ms}
            connection.execute(timers.insert().values(**row))

    clock.set(skew_s)
    assert due(harness.database) == [(run_id, "past")]


@pytest.mark.postgres
def test_retention_takes_nothing_for_old_that_a_machine_with_a_wrong_clock_did(
    many_machines: JournalHarness, clock: Clock, settings: Settings
) -> None:
    harness = many_machines
    keeping_days = settings.model_copy(
        update={"retain_runs_days": 1, "retain_threads_days": 1, "retain_events_days": 1}
    )
    clock.set(-YEARS_S)
    ended, stopped = harness.own(), harness.accept()
    harness.do(ended.end())
    cancel(harness.database, Principal(), stopped.run_id, by="ann")
    clock.set(0)

    swept = sweep(harness.database, keeping_days, pause=lambda _: None)
    assert (swept.threads, swept.runs, swept.logs, swept.definitions) == (0, 0, 0, 0)
    clock.set(YEARS_S)
    swept = sweep(harness.database, keeping_days, pause=lambda _: None)
    assert (swept.threads, swept.runs, swept.logs, swept.definitions) == (0, 0, 0, 0)


@pytest.mark.postgres
@pytest.mark.parametrize("skew_s", SKEWS)
def test_durations_are_measured_by_one_clock(many_machines: JournalHarness, clock: Clock, skew_s: int) -> None:
    harness = many_machines
    accepted = harness.accept()
    clock.set(skew_s)
    owner = harness.own(accepted.run_id)
    why = Runs(harness.database).explain(Principal(), run_id=accepted.run_id)
    harness.do(owner.end())

    row = harness.run_row(accepted.run_id)
    assert 0 <= owner.lease.age_ms < 60_000
    assert 0 <= row.started_ms - row.created_ms < 60_000
    assert 0 <= row.ended_ms - row.started_ms < 60_000
    assert why


@pytest.mark.postgres
@pytest.mark.parametrize("skew_s", SKEWS)
def test_a_worker_with_a_wrong_clock_is_alive_and_distinguished(
    many_machines: JournalHarness, clock: Clock, skew_s: int
) -> None:
    harness = many_machines
    clock.set(skew_s)
    Workers(harness.database).renew(
        WorkerRow(id="own_1", host="alpha", pid=1, pool="threads", slots=1, busy=0), time_ms
    )
    clock.set(0)

    with harness.database.read() as connection:
        (row,) = alive(connection)
    assert abs(row["skew_ms"] - skew_s * 1000) < 60_000


def time_ms() -> int:
    return time.time_ns() // 1_000_000


def test_runs_and_threads_of_sqlite_have_the_machines_time(small_harness: JournalHarness) -> None:
    run_id = small_harness.accept().run_id

    ((created_ms,),) = small_harness.rows(select(runs.c.created_ms).where(runs.c.id == run_id))
    assert abs(created_ms - time_ms()) < 60_000
