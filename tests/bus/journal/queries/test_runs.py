"""Stops, and what lists show; a foreign run and an unknown one look the same."""

from __future__ import annotations

from functools import partial

import orjson
import pytest
from sqlalchemy import func, select, update

from bus.journal.errors import CURSOR_AHEAD, RunUnknown, StaleOwner
from bus.journal.log.commit import Commit
from bus.journal.paging import RunPlace
from bus.journal.queries.runs import Runs
from bus.journal.retention.removal import remove_runs
from bus.journal.states.owned import RESERVE
from bus.payloads import EndPayload
from config.database.tables import controls, messages, outbox, runs, threads
from config.errors import BadRequest
from config.identity.principal import Principal
from tests.bus.journal_harness import JournalHarness, assert_whole, cancel
from tests.bus.questions import asks, question
from tests.bus.racing import at_once
from tests.raising import raises

ME = Principal()
OTHERS = [Principal(id="eve"), Principal(tenant="other")]


def stop(harness: JournalHarness, run_id: str, principal: Principal = ME):
    return cancel(harness.database, principal, run_id, "ann")


# --- stopping


def test_a_run_that_waits_is_ended_here(harness: JournalHarness):
    accepted = harness.accept()

    done = stop(harness, accepted.run_id)

    assert (done.status, done.fence) == ("cancelled", 1)
    assert [payload.event_type for payload in done.events] == ["control", "end"]
    lines = harness.lines(accepted.run_id)
    assert_whole(lines)
    row = harness.run_row(accepted.run_id)
    assert (row.status, row.fence, row.reserved_to, row.observers_told) == ("cancelled", 1, 3, False)
    assert row.ended_ms is not None
    assert harness.claim(accepted.run_id) is None


def test_a_stop_is_in_the_history(harness: JournalHarness):
    accepted = harness.accept()
    stop(harness, accepted.run_id)

    _, item = harness.rows(select(messages).order_by(messages.c.number))
    assert (item.role, item.run_id) == ("error", accepted.run_id)
    assert "Stopped" in orjson.loads(item.data_json)["content"]


def test_an_owner_that_lives_is_asked_and_not_overruled(harness: JournalHarness):
    owner = harness.own()

    done = stop(harness, owner.lease.run_id)
    again = stop(harness, owner.lease.run_id)

    assert (done.status, done.events, again.status) == ("running", (), "running")
    (order,) = harness.rows(select(controls))
    assert (order.kind, order.by, order.run_id) == ("stop", "ann", owner.lease.run_id)
    assert harness.run_row(owner.lease.run_id).stop_requested
    harness.do(owner.message())


def test_a_run_whose_owner_is_gone_is_ended_here_with_its_holes_declared(harness: JournalHarness):
    owner = harness.own()
    harness.do(owner.say("lost", "text"))
    harness.expire_lease(owner.lease.run_id)

    done = stop(harness, owner.lease.run_id)

    assert [payload.event_type for payload in done.events] == ["withdrawn", "control", "end"]
    lines = harness.lines(owner.lease.run_id)
    assert_whole(lines)
    assert lines[-3].withdrawn_ranges == [(3, 1 + RESERVE)]
    with pytest.raises(StaleOwner):
        harness.do(owner.message())


def test_an_ended_run_is_left_as_it_is(harness: JournalHarness):
    owner = harness.own()
    harness.do(owner.end())

    done = stop(harness, owner.lease.run_id)

    assert (done.status, done.events, done.wake) == ("succeeded", (), None)
    assert harness.kinds(owner.lease.run_id)[-1] == "end"


def test_stopping_twice_ends_once(harness: JournalHarness):
    run_id = harness.accept().run_id

    outcomes = at_once(6, lambda _: stop(harness, run_id))

    assert {done.status for done in outcomes} == {"cancelled"}
    assert sum(bool(done.events) for done in outcomes) == 1
    assert_whole(harness.lines(run_id))


def test_a_stop_and_a_claim_at_the_same_moment_have_one_outcome(harness: JournalHarness):
    for _ in range(8):
        run_id = harness.accept().run_id

        def do(index: int, run_id: str = run_id) -> object:
            return harness.claim(run_id) if index else stop(harness, run_id)

        done, lease = at_once(2, do)

        if lease is None:
            assert done.status == "cancelled"
            assert_whole(harness.lines(run_id))
        else:
            assert done.status == "running"
            assert harness.run_row(run_id).stop_requested


def test_the_threads_next_run_may_begin_after_a_stop(harness: JournalHarness):
    first, second = (harness.accept(thread_id="mine") for _ in range(2))

    done = stop(harness, first.run_id)

    assert done.wake == second.run_id
    assert harness.rows(select(func.count()).select_from(outbox).where(outbox.c.run_id == second.run_id))[0][0] == 2
    assert harness.claim(second.run_id) is not None


def test_stopping_a_run_that_waits_behind_another_leaves_that_one_alone(harness: JournalHarness):
    first = harness.own(harness.accept(thread_id="mine").run_id)
    second = harness.accept(thread_id="mine")

    stop(harness, second.run_id)

    assert harness.rows(select(threads.c.open_run))[0][0] == first.lease.run_id
    harness.do(first.end())
    assert first.woken == []


@pytest.mark.parametrize("principal", OTHERS)
def test_another_principals_run_cannot_be_stopped_nor_distinguished_from_none(
    harness: JournalHarness, principal: Principal
):
    run_id = harness.accept().run_id
    texts = []

    for run_id_ in (run_id, "run_" + "x" * len(run_id[4:])):
        with pytest.raises(RunUnknown) as error:
            stop(harness, run_id_, principal)
        texts.append(str(error.value).replace(run_id_, "ID"))

    assert texts[0] == texts[1]
    assert harness.run_row(run_id).status == "queued"


# --- lists


@pytest.fixture
def some_runs(harness: JournalHarness) -> dict[str, str]:
    """A run of each kind, the newest first."""
    ended = harness.own(harness.accept("one", agent_id="data").run_id)
    end = EndPayload(status="failed", reason="why", output="x", usage={"input_tokens": 1}, cost_usd=0.1, steps=3)
    harness.do(ended.writer.commit(Commit(events=[end], error_code="model_failed")))
    running = harness.own(harness.accept("two", thread_id="mine", metadata={"a": 1}).run_id)
    queued = harness.accept("three")
    for principal in OTHERS:
        harness.accept("theirs", principal=principal, thread_id="mine")
    return {"queued": queued.run_id, "running": running.lease.run_id, "failed": ended.lease.run_id}


def listed(harness: JournalHarness, principal: Principal = ME, **filters):
    return [run["run_id"] for run in Runs(harness.database).newest(principal, **filters)]


def test_lists_show_ones_own_runs_by_state_agent_and_thread(harness: JournalHarness, some_runs: dict[str, str]):
    assert sorted(listed(harness)) == sorted(some_runs.values())
    assert listed(harness, status="failed") == [some_runs["failed"]]
    assert set(listed(harness, status="open")) == {some_runs["queued"], some_runs["running"]}
    assert listed(harness, agent="data") == [some_runs["failed"]]
    assert listed(harness, thread_id="mine") == [some_runs["running"]]
    assert listed(harness, status="succeeded") == listed(harness, thread_id="unknown") == []
    assert len(listed(harness, OTHERS[0])) == 1


def test_a_state_there_is_not_is_refused(harness: JournalHarness):
    with pytest.raises(BadRequest):
        listed(harness, status="sleeping")


def test_pages_of_runs_join_also_within_one_millisecond(harness: JournalHarness):
    run_ids = [harness.accept().run_id for _ in range(7)]
    with harness.database.write() as connection:
        connection.execute(update(runs).values(created_ms=5))
    run_list, before = Runs(harness.database).page(ME, limit=3)
    while before is not None:
        page, before = Runs(harness.database).page(ME, limit=3, before=before)
        run_list += page

    assert [run["run_id"] for run in run_list] == sorted(run_ids, reverse=True)


def test_a_page_of_runs_ends_where_their_outputs_reach_a_megabyte(harness: JournalHarness):
    run_ids = [harness.accept().run_id for _ in range(7)]
    with harness.database.write() as connection:
        connection.execute(update(runs).values(created_ms=5, output_json='"' + "x" * 400_000 + '"'))
        connection.execute(update(runs).where(runs.c.id == min(run_ids)).values(output_json=None))
    pages: list[list[str]] = []
    before: RunPlace | None = None
    while not pages or before is not None:
        run_list, before = Runs(harness.database).page(ME, limit=7, before=before)
        pages.append([run["run_id"] for run in run_list])

    assert [len(page) for page in pages] == [3, 3, 1]
    assert [run_id for page in pages for run_id in page] == sorted(run_ids, reverse=True)


def test_the_board_reads_no_outputs(harness: JournalHarness, some_runs: dict[str, str]):
    board = Runs(harness.database).board(ME)

    assert len(board.runs) == len(some_runs)
    assert not [run for run in board.runs if "output" in run or "metadata" in run]


def test_a_run_shows_what_is_known_of_it_and_no_nulls(harness: JournalHarness, some_runs: dict[str, str]):
    failed, running = (Runs(harness.database).get(ME, some_runs[name]) for name in ("failed", "running"))

    assert (failed["status"], failed["reason"], failed["error"], failed["output"]) == (
        "failed",
        "why",
        "model_failed",
        "x",
    )
    assert (failed["usage"], failed["cost_usd"], failed["steps"]) == ({"input_tokens": 1}, 0.1, 3)
    assert failed["duration_ms"] >= 0
    assert (running["metadata"], running["attempt"], running["title"]) == ({"a": 1}, 1, "two")
    assert None not in [*failed.values(), *running.values()]


def test_a_run_is_small_by_its_output_and_what_it_asks(harness: JournalHarness):
    run_id, other = harness.accept().run_id, harness.accept().run_id
    asks(harness.database, run_id, question(arguments={"text": "x" * 1000}))
    with harness.database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == other).values(output_json='"' + "x" * 500 + '"'))

    waiting_run, ended = (Runs(harness.database).get(ME, which) for which in (run_id, other))
    small = [
        [Runs(harness.database).get_small(ME, which, chars) for chars in (400, 800, 2000)] for which in (run_id, other)
    ]

    assert small == [[None, None, waiting_run], [None, ended, ended]]
    assert len(ended["output"]) == 500
    assert waiting_run["approvals"]


def test_a_reader_learns_where_a_run_may_have_got_to(harness: JournalHarness, some_runs: dict[str, str]):
    last = 1 + RESERVE

    assert Runs(harness.database).bounds(ME, some_runs["running"], last) == ("mine", "running", last)
    with raises(CURSOR_AHEAD):
        Runs(harness.database).bounds(ME, some_runs["running"], last + 1)


@pytest.mark.parametrize("principal", OTHERS)
@pytest.mark.parametrize("look", [Runs.row, Runs.get, partial(Runs.get_small, max_chars=9), Runs.bounds])
def test_another_principals_run_is_not_visible(
    harness: JournalHarness, some_runs: dict[str, str], look, principal: Principal
):
    for run_id in (some_runs["running"], "run_nobody_knows"):
        with pytest.raises(RunUnknown):
            look(Runs(harness.database), principal, run_id)


def test_a_removed_run_has_no_state(harness: JournalHarness) -> None:
    owner = harness.own()
    harness.do(owner.end())
    remove_runs(harness.database, Principal(), [owner.lease.run_id])

    assert Runs(harness.database).status(owner.lease.run_id) is None
