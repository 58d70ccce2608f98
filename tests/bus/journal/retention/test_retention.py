"""What is too old goes, in small portions; what is open or still needed stays; readers are never left hanging."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import orjson
import pytest
from sqlalchemy import insert, select, update

from bus.journal.queries.threads import Threads
from bus.journal.records import definition_store as pinned
from bus.journal.retention import retention
from bus.journal.retention.removal import remove_runs, remove_threads
from bus.journal.retention.retention import Swept, sweep
from bus.journal.states.owned import RESERVE
from bus.journal.storage.agent_versions import AgentVersions
from config.clock import epoch_ms
from config.database.engine import Database, wall_ms
from config.database.tables import agent_versions, definitions, envelope_nonces, events, messages, runs, steps, threads
from config.identity.principal import LOCAL, Principal
from config.settings import Settings
from config.settings.limits import Tenants, TenantSettings
from tests.bus.ended_runs import age, count, ended, old
from tests.bus.journal_harness import JournalHarness, assert_whole, cancel
from tests.bus.racing import at_once

ME = Principal()


@pytest.fixture
def kept(tmp_path: Path) -> Settings:
    """Settings that keep everything, with a state folder of this test's own."""
    return Settings(_env_file=None, state_dir=tmp_path / "state")  # type: ignore[call-arg]  # pydantic-settings' own


@pytest.fixture(autouse=True)
def _as_in_a_new_process() -> None:
    """Nothing is known to be kept: tests share databases that are emptied."""
    pinned._known.clear()


def keeping(settings: Settings, **days: float) -> Settings:
    return settings.model_copy(update={f"retain_{kind}_days": value for kind, value in days.items()})


def clean(harness: JournalHarness, settings: Settings, pauses: list[float] | None = None) -> Swept:
    pauses = pauses if pauses is not None else []
    return sweep(harness.database, settings, pause=pauses.append)


def test_by_default_nothing_goes(harness: JournalHarness, kept: Settings) -> None:
    run_id = old(harness, days=10_000)

    assert clean(harness, kept) == Swept()
    assert harness.run_row(run_id).status == "succeeded"


# --- runs


def test_runs_go_when_they_ended_too_long_ago(harness: JournalHarness, kept: Settings) -> None:
    gone, stays = old(harness, days=8), old(harness, days=6)

    swept = clean(harness, keeping(kept, runs=7))

    assert swept == Swept(runs=1)
    assert [row.id for row in harness.rows(select(runs.c.id))] == [stays]
    assert count(harness, messages, run_id=gone) == 2
    assert count(harness, events, run_id=gone) == count(harness, steps, run_id=gone) == 0


def test_a_tenant_keeps_its_runs_as_long_as_its_own_setting_says(harness: JournalHarness, kept: Settings) -> None:
    tenants = ("default", "short", "ever", "default", "short", "ever")
    run_ids = [old(harness, str(n), days=days) for n, days in enumerate([8, 8, 8, 3, 3, 3])]
    with harness.database.write() as connection:
        for run_id, tenant in zip(run_ids, tenants, strict=True):
            connection.execute(update(runs).where(runs.c.id == run_id).values(tenant=tenant))
    sections = Tenants(short=TenantSettings(retain_runs_days=2), ever=TenantSettings(retain_runs_days=0))

    swept = clean(harness, keeping(kept, runs=7).model_copy(update={"tenants": sections}))

    assert swept == Swept(runs=3)
    assert {row.id for row in harness.rows(select(runs.c.id))} == {run_ids[2], run_ids[3], run_ids[5]}


def test_no_open_run_goes_however_old_it_is(harness: JournalHarness, kept: Settings) -> None:
    queued, running = (
        harness.accept(thread_id="a").run_id,
        harness.own(harness.accept(thread_id="b").run_id).lease.run_id,
    )
    with harness.database.write() as connection:
        connection.execute(update(runs).values(created_ms=1, started_ms=1))
        connection.execute(update(threads).values(created_ms=1, updated_ms=1))

    swept = clean(harness, keeping(kept, runs=1, threads=1, events=1))

    assert swept == Swept()
    assert {row.id for row in harness.rows(select(runs.c.id))} == {queued, running}


def test_a_run_whose_end_observers_still_wait_for_stays(harness: JournalHarness, kept: Settings) -> None:
    undelivered = old(harness)
    with harness.database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == undelivered).values(observers_told=False))

    assert clean(harness, keeping(kept, runs=1, threads=1, events=1)) == Swept()

    with harness.database.write() as connection:
        connection.execute(update(runs).values(observers_told=True))
    assert clean(harness, keeping(kept, runs=1)) == Swept(runs=1)


def test_a_part_of_an_open_run_stays(harness: JournalHarness, kept: Settings) -> None:
    child, parent = old(harness, "child"), harness.accept(thread_id="parent").run_id
    with harness.database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == child).values(parent_id=parent))

    assert clean(harness, keeping(kept, runs=1, threads=1, events=1)) == Swept()


def test_many_go_in_small_transactions_with_pauses_between(
    harness: JournalHarness, kept: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 3)
    for number in range(7):
        old(harness, f"talk_{number}")
    pauses: list[float] = []

    swept = clean(harness, keeping(kept, runs=1), pauses)

    assert swept.runs == 7
    assert len(pauses) == 3
    assert min(pauses) >= retention.MIN_PAUSE_S


def test_a_heavy_run_goes_alone(harness: JournalHarness, kept: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH_WEIGHT", 1)
    for number in range(3):
        old(harness, f"talk_{number}")
    pauses: list[float] = []

    assert clean(harness, keeping(kept, runs=1), pauses).runs == 3
    assert len(pauses) == 3


def test_two_that_sweep_at_once_take_each_run_once(
    harness: JournalHarness, kept: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    for number in range(12):
        old(harness, f"talk_{number}")

    swept = at_once(2, lambda _: clean(harness, keeping(kept, runs=1)))

    assert sum(each.runs for each in swept) == 12
    assert count(harness, runs) == 0


# --- threads


def test_unused_threads_are_deleted_with_everything(harness: JournalHarness, kept: Settings) -> None:
    old(harness, "gone", 40)
    old(harness, "stays", 20)

    swept = clean(harness, keeping(kept, threads=30))

    assert swept == Swept(threads=1)
    assert [row.id for row in harness.rows(select(threads.c.id))] == ["stays"]
    assert count(harness, runs) == 1
    assert count(harness, messages) == 2


def test_a_thread_with_one_open_run_stays_whole(harness: JournalHarness, kept: Settings) -> None:
    over = old(harness)
    harness.accept(thread_id="talk")
    with harness.database.write() as connection:
        connection.execute(update(threads).values(updated_ms=1))

    assert clean(harness, keeping(kept, threads=1)) == Swept()
    assert harness.kinds(over)[-1] == "end"


def test_an_empty_thread_goes_too(harness: JournalHarness, kept: Settings) -> None:
    row = {
        "id": "thr_1",
        "tenant": "default",
        "principal": "local",
        "agent_id": "assistant",
        "title": "Empty",
        "next_message": 1,
        "created_ms": 1,
        "updated_ms": 1,
    }
    with harness.database.write() as connection:
        connection.execute(insert(threads), row)

    assert clean(harness, keeping(kept, threads=30)) == Swept(threads=1)


# --- events


def test_an_expired_log_keeps_its_end_and_names_what_is_gone(harness: JournalHarness, kept: Settings) -> None:
    run_id = old(harness)
    whole = harness.lines(run_id)
    positions = {row.position for row in harness.rows(select(events.c.position).where(events.c.run_id == run_id))}

    swept = clean(harness, keeping(kept, events=1))

    assert swept == Swept(logs=1)
    lines = harness.lines(run_id)
    assert_whole(lines)
    assert [line.type for line in lines] == ["withdrawn", "end"]
    assert lines[-1] == whole[-1]
    assert lines[0].withdrawn_ranges == [(1, whole[-1].seq - 2)]
    assert orjson.loads(lines[0].data)["reason"] == "expired"
    assert count(harness, steps, run_id=run_id) == 1
    assert count(harness, messages, run_id=run_id) == 2
    # A reader of all runs goes by position; an old log must not look like news.
    assert {row.position for row in harness.rows(select(events.c.position))} <= positions


def test_a_log_expires_once(harness: JournalHarness, kept: Settings) -> None:
    old(harness)
    settings = keeping(kept, events=1)

    assert clean(harness, settings).logs == 1
    assert clean(harness, settings) == Swept()


def test_every_log_expires_however_many_there_are(
    harness: JournalHarness, kept: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    expired = [old(harness, f"talk_{number}") for number in range(5)]

    assert clean(harness, keeping(kept, events=1)).logs == 5
    assert all(harness.kinds(run_id) == ["withdrawn", "end"] for run_id in expired)


@pytest.mark.parametrize("back", range(8))
def test_a_reader_of_an_expired_log_comes_to_its_end_from_any_cursor(
    each_log_harness: JournalHarness, kept: Settings, back: int
) -> None:
    harness = each_log_harness
    owner = ended(harness)
    harness.do(harness.hot_log.detach(owner.lease.run_id))
    run_id = age(harness, owner.lease.run_id)
    last = harness.lines(run_id)[-1].seq
    cursor = max(0, last - back)
    clean(harness, keeping(kept, events=1))

    thread_id = Threads(harness.database).get(ME, "talk")["thread_id"]
    if cursor == last:
        assert harness.lines(run_id, cursor, thread_id) == []
        return
    lines = harness.lines(run_id, cursor, thread_id)
    assert lines[-1].is_end
    assert [line.seq for line in lines] == [n for n in (last - 1, last) if n > cursor]


def test_a_reader_that_was_in_the_middle_comes_to_the_end(small_harness: JournalHarness, kept: Settings) -> None:
    owner = ended(small_harness)
    small_harness.do(small_harness.hot_log.detach(owner.lease.run_id))
    run_id = age(small_harness, owner.lease.run_id)
    reader = small_harness.reader(owner.lease, cursor=2)
    clean(small_harness, keeping(kept, events=1))

    async def read() -> list:
        return [line async for batch in reader.batches() for line in batch]

    assert [line.type for line in small_harness.do(read())] == ["withdrawn", "end"]
    assert small_harness.run_row(run_id).status == "succeeded"


def test_a_log_that_redis_may_still_hold_is_left_alone(harness: JournalHarness, kept: Settings) -> None:
    """A reader that has the newest part from Redis would never see the event that declares the rest."""
    age(harness, ended(harness).lease.run_id, days=1.5 / 24)
    age(harness, ended(harness, "other").lease.run_id, days=2.5 / 24)

    swept = clean(harness, keeping(kept, events=0.001))

    assert swept == Swept(logs=1)
    assert [row.thread_id for row in harness.rows(select(runs).join(events).where(events.c.type == "withdrawn"))] == [
        "other"
    ]


def test_a_run_that_said_nothing_is_as_short_as_a_log_gets(harness: JournalHarness, kept: Settings) -> None:
    owner = harness.own()
    harness.do(owner.end())
    run_id = age(harness, owner.lease.run_id)
    before = harness.lines(run_id)

    clean(harness, keeping(kept, events=1))

    assert len(before) == 3
    lines = harness.lines(run_id)
    assert_whole(lines)
    assert [line.type for line in lines] == ["withdrawn", "end"]


def test_a_log_with_holes_and_without_an_owner_expires_too(harness: JournalHarness, kept: Settings) -> None:
    owner = harness.own()
    harness.do(owner.say("lost ", "with the worker"))
    harness.expire_lease(owner.lease.run_id)
    cancel(harness.database, ME, owner.lease.run_id, "ann")
    with harness.database.write() as connection:
        connection.execute(update(runs).values(observers_told=True))
    run_id = age(harness, owner.lease.run_id)
    assert harness.lines(run_id)[-1].seq > RESERVE

    assert clean(harness, keeping(kept, events=1)).logs == 1

    lines = harness.lines(run_id)
    assert_whole(lines)
    assert [line.type for line in lines] == ["withdrawn", "end"]


# --- definitions


def test_definitions_no_run_refers_to_go(harness: JournalHarness, kept: Settings) -> None:
    run_id = old(harness)
    with harness.database.write() as connection:
        connection.execute(update(definitions).values(created_ms=1))  # of the run, which is old
        for digest, created_ms in (("e" * 64, 1), ("f" * 64, epoch_ms())):
            row = {"digest": digest, "agent_id": "assistant", "content_json": "{}", "created_ms": created_ms}
            connection.execute(insert(definitions), row)

    assert clean(harness, kept).definitions == 1
    assert {row.digest[0] for row in harness.rows(select(definitions.c.digest))} == {"d", "f"}
    assert clean(harness, keeping(kept, runs=1)) == Swept(runs=1)
    assert {row.digest[0] for row in harness.rows(select(definitions.c.digest))} == {"d", "f"}  # its agent's last one
    assert count(harness, runs, id=run_id) == 0


def test_versions_go_that_no_run_and_no_alias_needs(harness: JournalHarness, kept: Settings) -> None:
    versions = AgentVersions(harness.database)
    for digest in "abcde":
        versions.register("clerk", digest * 64, f'{{"name":"{digest}"}}')
    versions.promote(LOCAL, "clerk", 1)
    versions.promote(LOCAL, "clerk", 2)
    with harness.database.write() as connection:
        connection.execute(update(agent_versions).values(seen_ms=agent_versions.c.number))  # long ago
        connection.execute(update(definitions).values(created_ms=1))

    assert clean(harness, kept) == Swept(versions=2, definitions=2)
    assert [row["version"] for row in versions.listed("clerk")] == [5, 2, 1]  # the last, stable, and before that
    versions.register("clerk", "f" * 64, "{}")
    assert versions.listed("clerk")[0]["version"] == 6


def test_a_definition_a_run_is_accepted_with_after_all_stays(harness: JournalHarness, kept: Settings) -> None:
    remove_runs(harness.database, ME, [old(harness)])
    pinned._known.clear()  # as another process, or this one a while later
    with harness.database.write() as connection:
        connection.execute(update(definitions).values(created_ms=1))

    harness.accept(thread_id="new")
    remove_threads(harness.database, ME, ["talk"])

    assert clean(harness, kept) == Swept()
    assert count(harness, definitions) == 1


def test_a_busy_process_pins_again_in_time(small_harness: JournalHarness) -> None:
    small_harness.accept()
    with small_harness.database.write() as connection:
        connection.execute(update(definitions).values(created_ms=1))

    for _ in range(3):
        for key in pinned._known:
            pinned._known[key] -= pinned.RENEW_S / 3
        small_harness.accept()

    (row,) = small_harness.rows(select(definitions.c.created_ms))
    assert row.created_ms > 1


# --- files


def test_old_files_of_the_logger_go_with_the_rest(sqlite: Database, kept: Settings) -> None:
    folder = kept.state / "logs"
    folder.mkdir(parents=True)
    for name, days in (("runs-0.log.1", 8), ("runs-0.log", 6), ("up.log", 8)):
        (folder / name).write_text("a line\n")
        os.utime(folder / name, (time.time() - days * 24 * 3600,) * 2)

    assert sweep(sqlite, kept) == Swept()
    assert sweep(sqlite, keeping(kept, logs=7)) == Swept(files=1)
    assert sorted(path.name for path in folder.glob("*.log*")) == ["runs-0.log", "up.log"]


# --- beside writers


@pytest.mark.parity  # a second of writers
def test_writers_continue_while_much_is_removed(
    small_harness: JournalHarness, kept: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = small_harness
    monkeypatch.setattr(retention, "BATCH", 5)
    for number in range(60):
        old(harness, f"talk_{number}")
    begun, over, accepted = threading.Event(), threading.Event(), []

    def write() -> None:
        while not over.is_set():
            accepted.append(harness.accept())  # raises DatabaseBusy if it is kept waiting
            begun.set()

    def pause(seconds: float) -> None:
        before = len(accepted)
        while len(accepted) == before and writer.is_alive():
            over.wait(0.001)

    writer = threading.Thread(target=write)
    writer.start()
    begun.wait(5)
    swept = sweep(harness.database, keeping(kept, runs=1), pause=pause)
    over.set()
    writer.join()

    assert swept.runs == 60
    assert count(harness, runs) == len(accepted) >= 13


def test_nonces_of_envelopes_go_when_no_verifier_needs_them(harness: JournalHarness, kept: Settings) -> None:
    with harness.database.write() as connection:
        now_ms = wall_ms(connection)
        for nonce, expires_ms in (("old", now_ms - 2 * 3_600_000), ("late", now_ms - 1000), ("new", now_ms + 1000)):
            row = {"key_id": "main", "nonce": nonce, "expires_ms": expires_ms}
            connection.execute(insert(envelope_nonces), row)

    assert clean(harness, kept) == Swept(nonces=1)
    assert clean(harness, kept) == Swept()
    with harness.database.read() as connection:
        assert set(connection.execute(select(envelope_nonces.c.nonce)).scalars()) == {"late", "new"}
