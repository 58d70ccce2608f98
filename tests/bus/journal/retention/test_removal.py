"""Runs and threads that are removed are gone with all that belongs to them; open ones are refused."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy import insert

from bus.journal.acceptance.accept import Accepted, accept
from bus.journal.errors import RUN_OPEN, RunUnknown, ThreadUnknown
from bus.journal.idempotency import IdempotencyKey
from bus.journal.queries.runs import Runs
from bus.journal.queries.threads import Threads
from bus.journal.retention.removal import OF_A_RUN, remove_runs, remove_threads
from bus.journal.states.owned import RESERVE
from config.database.tables import (
    approvals,
    controls,
    events,
    idempotency_keys,
    messages,
    metadata,
    runs,
    steps,
    threads,
    timers,
)
from config.errors import Permanent
from config.identity.principal import Principal
from tests.bus.ended_runs import count, ended
from tests.bus.journal_harness import JournalHarness, new_run
from tests.raising import raises

ME = Principal()
OTHERS = [Principal(id="eve"), Principal(tenant="other")]
KEY = IdempotencyKey(key="k", method="POST", path="/v1/runs", body_digest="b" * 64)


def test_every_table_that_refers_to_a_run_is_emptied_of_it() -> None:
    referring = {
        table.name for table in metadata.tables.values() for key in table.foreign_keys if key.column is runs.c.id
    }

    assert referring <= {table.name for table in OF_A_RUN}
    assert {"events", "steps", "controls", "approvals", "timers", "idempotency_keys", "outbox"} <= {
        table.name for table in OF_A_RUN
    }


def test_a_removed_run_leaves_only_what_was_said(harness: JournalHarness) -> None:
    gone, stays = ended(harness, idempotency=KEY).lease.run_id, ended(harness).lease.run_id
    with harness.database.write() as connection:
        connection.execute(insert(controls).values(run_id=gone, kind="stop", created_ms=1))
        connection.execute(insert(approvals).values(id="apr_1", run_id=gone, decisions_json="[]", created_ms=1))
        connection.execute(insert(timers).values(id="tim_1", run_id=gone, kind="approval", due_ms=1))

    remove_runs(harness.database, ME, [gone])

    assert {table.name: count(harness, table, run_id=gone) for table in OF_A_RUN} == {
        table.name: 0 for table in OF_A_RUN
    }
    assert count(harness, messages, run_id=gone) == 2
    with pytest.raises(RunUnknown):
        Runs(harness.database).row(ME, gone)
    assert [run["run_id"] for run in Threads(harness.database).get(ME, "talk")["runs"]] == [stays]
    assert len(Threads(harness.database).messages(ME, "talk")) == 4
    assert count(harness, steps, run_id=stays) == 1
    assert harness.kinds(stays)[-1] == "end"


def test_the_key_of_a_removed_run_may_start_another(harness: JournalHarness) -> None:
    first = ended(harness, idempotency=KEY).lease.run_id
    remove_runs(harness.database, ME, [first])

    second = accept(harness.database, new_run(thread_id="talk", idempotency=KEY))

    assert second.is_new
    assert count(harness, idempotency_keys) == 1


def test_an_open_run_is_refused_and_those_beside_it_stay(harness: JournalHarness) -> None:
    over, queued, running = ended(harness).lease.run_id, harness.accept().run_id, harness.own().lease.run_id

    for still_open, status in ((queued, "queued"), (running, "running")):
        with raises(RUN_OPEN, match=rf"is {status}; stop it first \(`./callboard cancel {still_open}`\)"):
            remove_runs(harness.database, ME, [over, still_open])

    assert count(harness, runs) == 3
    assert harness.kinds(over)[-1] == "end"


@pytest.mark.parametrize("principal", OTHERS)
def test_what_is_another_principals_is_unknown(harness: JournalHarness, principal: Principal) -> None:
    run_id = ended(harness).lease.run_id

    with pytest.raises(RunUnknown):
        remove_runs(harness.database, principal, [run_id])
    with pytest.raises(ThreadUnknown):
        remove_threads(harness.database, principal, ["talk"])

    assert count(harness, runs) == count(harness, threads) == 1


def test_a_removed_thread_leaves_nothing(harness: JournalHarness) -> None:
    ended(harness)
    ended(harness)
    for principal in OTHERS:
        ended(harness, principal=principal)
    stays = ended(harness, "other").lease.run_id

    remove_threads(harness.database, ME, ["talk"])

    with pytest.raises(ThreadUnknown):
        Threads(harness.database).get(ME, "talk")
    assert len(Threads(harness.database).get(OTHERS[0], "talk")["runs"]) == 1
    assert count(harness, threads) == count(harness, runs) == 3
    assert count(harness, messages) == 6
    assert harness.kinds(stays)[-1] == "end"


def test_a_thread_with_an_open_run_is_refused(harness: JournalHarness) -> None:
    ended(harness)
    waiting = harness.accept(thread_id="talk").run_id

    with raises(RUN_OPEN, match=f"thread 'talk' has a run that is queued; stop it .*cancel {waiting}"):
        remove_threads(harness.database, ME, ["talk"])

    assert count(harness, messages) == 3


def test_of_several_the_unknown_one_is_named_and_none_goes(harness: JournalHarness) -> None:
    run_id = ended(harness).lease.run_id

    with pytest.raises(RunUnknown, match="run_nothere"):
        remove_runs(harness.database, ME, [run_id, "run_nothere"])
    with pytest.raises(ThreadUnknown, match="thr_nothere"):
        remove_threads(harness.database, ME, ["talk", "thr_nothere"])

    assert count(harness, runs) == count(harness, threads) == 1


@pytest.mark.parity
def test_a_message_that_comes_while_its_thread_is_removed_begins_a_new_one(harness: JournalHarness) -> None:
    """Either the thread has gone before, or it is refused because of the run: never a run without its thread."""
    for number in range(20):
        name = f"talk_{number}"
        ended(harness, name)
        barrier = threading.Barrier(2)
        accepted: list[Accepted] = []

        def say(name: str = name, barrier: threading.Barrier = barrier, accepted: list[Accepted] = accepted) -> None:
            barrier.wait()
            accepted.append(harness.accept(thread_id=name))

        thread = threading.Thread(target=say)
        thread.start()
        barrier.wait()
        try:
            remove_threads(harness.database, ME, [name])
            expected = 1
        except Permanent:
            expected = 2
        thread.join()
        runs_of_thread = [run["run_id"] for run in Threads(harness.database).get(ME, name)["runs"]]
        assert len(runs_of_thread) == expected
        assert accepted[0].run_id in runs_of_thread
        assert count(harness, messages, run_id=accepted[0].run_id) == 1


def test_a_reader_of_a_removed_run_gets_an_error(each_log_harness: JournalHarness) -> None:
    harness = each_log_harness
    owner = ended(harness)
    reader = harness.reader(owner.lease, cursor=owner.lease.next_seq + RESERVE)  # behind all it will ever be sent
    remove_runs(harness.database, ME, [owner.lease.run_id])

    async def read() -> list:
        return [line async for batch in reader.batches() for line in batch]

    with pytest.raises(RunUnknown):
        harness.do(read())
    assert count(harness, events) == 0
