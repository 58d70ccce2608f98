"""Runs whose lease expired go back to the queue, or end, however many reapers look."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import orjson
import pytest
from sqlalchemy import func, select, update

from bus.journal.approvals import Decision
from bus.journal.decisions.decisions import NOT_MADE, decide
from bus.journal.errors import StaleOwner
from bus.journal.log.commit import Commit
from bus.journal.ownership import reaper as reapers
from bus.journal.ownership.leases import beat
from bus.journal.ownership.reaper import Reaper, due, fire, reap, unowned_runs
from bus.journal.ownership.workers import new_owner_id
from bus.journal.queries.runs import Runs
from bus.journal.queries.threads import Threads
from bus.journal.records.steps import StepEnded, StepStarted, end_steps, steps_of
from bus.journal.retention.retention import Pause
from bus.journal.run_end import NOT_KNOWN
from bus.journal.states.crashes import ALWAYS_SUSPECT_AFTER, SUSPECT_AFTER, LeaseGrace, is_suspect
from bus.journal.unowned.runs import UnownedRuns
from bus.journal.unowned.transitions import CommitResult
from bus.payloads import ApprovalPayload, EndPayload, ErrorPayload, ToolResultPayload, decode
from bus.queues import ServedQueues
from config.database.engine import Database
from config.database.errors import DatabaseBusy, DatabaseFull, DatabaseReadOnly, DatabaseUnreachable
from config.database.tables import outbox, runs, timers
from config.effects import OnExpiry
from config.errors import CallboardError
from config.identity.principal import Principal
from config.settings import Settings
from tests.bus.journal_harness import JournalHarness, Owner, assert_whole, cancel, claim
from tests.bus.questions import answer_of, asks, question, question_before
from tests.bus.racing import at_once
from tests.full_disk import full_disk

ME = Principal()
RACERS = 50


def step(number: int = 1, **fields: Any) -> StepStarted:
    defaults: dict[str, Any] = {
        "id": f"stp_{number}",
        "kind": "tool",
        "name": "refund_order",
        "arguments_digest": "a",
        "effect": "unsafe",
        "idempotency_key": f"k{number}",
        "call_id": f"call_{number}",
    }
    return StepStarted(**(defaults | fields))


def lost(harness: JournalHarness, run_id: str, *started: StepStarted) -> Owner:
    """Return the owner of a run that was in the middle of these steps when its lease ran out."""
    owner = harness.own(run_id)
    if started:
        harness.do(owner.writer.commit(Commit(started=started)))
    harness.expire_lease(run_id)
    return owner


def run_data(harness: JournalHarness, run_id: str) -> dict[str, Any]:
    return Runs(harness.database).get(ME, run_id)


def announced(harness: JournalHarness, run_id: str) -> int:
    return int(harness.rows(select(func.count()).select_from(outbox).where(outbox.c.run_id == run_id))[0][0])


# --- a lost owner ---------------------------------------------------------------------------------


def test_a_lapsed_run_goes_back_to_the_queue_with_what_was_seen(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id
    lost(harness, run_id, step(1), step(2, kind="model", name="demo"))

    assert unowned_runs(harness.database) == [run_id]
    done = reap(harness.database, run_id)

    assert done is not None
    row = harness.run_row(run_id)
    assert (done.status, done.wake, done.events) == ("queued", run_id, ())
    assert (row.status, row.owner, row.lease_until, row.crashes) == ("queued", None, None, 1)
    assert announced(harness, run_id) == 2
    (crash,) = run_data(harness, run_id)["crashes"]
    assert [(load["owner"], load["attempt"]) for load in orjson.loads(row.crashes_json)] == [("own_1", 1)]
    assert crash.keys() == {"attempt", "at", "during", "seen", "suspect"}, "the owner names a host and a process"
    assert crash["during"] == "model demo, tool refund_order"
    assert crash["seen"] == "its lease expired"


def test_reaping_again_finds_nothing_to_do(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id
    lost(harness, run_id)
    reap(harness.database, run_id)

    assert reap(harness.database, run_id) is None
    assert reap(harness.database, "run_nothere") is None
    assert unowned_runs(harness.database) == []
    assert (harness.run_row(run_id).crashes, announced(harness, run_id)) == (1, 2)


def test_what_a_lost_owner_streamed_is_withdrawn_by_the_next_and_it_may_write_no_more(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id
    owner = harness.own(run_id)
    harness.do(owner.say("never ", "sealed"))
    harness.expire_lease(run_id)
    reap(harness.database, run_id)

    with pytest.raises(StaleOwner):
        harness.do(owner.message())
    following = harness.own(run_id, "own_2")
    harness.do(following.end())

    lines = harness.lines(run_id)
    assert_whole(lines)
    assert [line.type for line in lines] == ["status", "status", "withdrawn", "status", "end"]


def test_an_owner_that_lives_is_left_alone(harness: JournalHarness) -> None:
    owner = harness.own(owner=new_owner_id())
    before = harness.run_row(owner.lease.run_id)

    assert unowned_runs(harness.database) == []
    assert reap(harness.database, owner.lease.run_id) is None

    assert harness.run_row(owner.lease.run_id) == before
    harness.do(owner.message())


def test_the_third_crash_of_a_run_is_its_last(harness: JournalHarness) -> None:
    accepted = harness.accept(thread_id="talk")
    following = harness.accept(thread_id="talk")
    for number in range(SUSPECT_AFTER + 1):
        lost(harness, accepted.run_id, step(number))
        done = reap(harness.database, accepted.run_id)

    assert done is not None
    lines = harness.lines(accepted.run_id)
    error, end = decode(lines[-2].data), decode(lines[-1].data)
    assert_whole(lines)
    assert isinstance(error, ErrorPayload)
    assert isinstance(end, EndPayload)
    assert (end.status, end.reason, error.code) == ("dead", "crashed", "crashed")
    assert "3 workers were lost" in error.message
    assert "tool refund_order" in error.message
    run = run_data(harness, accepted.run_id)
    assert (run["status"], run["error"], len(run["crashes"])) == ("dead", "crashed", 3)
    assert harness.claim(accepted.run_id) is None
    assert done.wake == following.run_id
    assert harness.claimable() == [following.run_id]


@pytest.mark.parametrize(
    ("kinds", "is_suspect"),
    [
        (["tool"], [False]),
        (["tool", "tool"], [False, True]),
        (["model", "tool"], [False, True]),
        (["", ""], [False, True]),
        (["model", "model"], [False, False]),
        (["tool", "model"], [False, False]),
        (["model", "model", "model"], [False, False, True]),
    ],
)
def test_a_run_is_suspected_by_what_was_at_work(
    harness: JournalHarness, kinds: list[str], is_suspect: list[bool]
) -> None:
    run_id = harness.accept().run_id
    seen = []

    for number, kind in enumerate(kinds):
        lost(harness, run_id, *([step(number, kind=kind)] if kind else []))
        assert reap(harness.database, run_id) is not None
        lease = harness.claim(run_id)
        assert lease is not None, "it continues"
        seen.append(lease.is_suspect)
        with harness.database.write() as connection:
            end_steps(connection, [StepEnded(id=f"stp_{number}", status="done")])
            released = {"status": "queued", "owner": None, "lease_until": None}
            connection.execute(update(runs).where(runs.c.id == run_id).values(**released))

    assert seen == is_suspect


def test_a_run_that_only_waits_for_its_model_outlives_two_crashes_in_company_and_a_third_but_no_fourth(
    harness: JournalHarness,
) -> None:
    run_id = harness.accept().run_id
    states = []

    for number in range(ALWAYS_SUSPECT_AFTER + 1):
        lost(harness, run_id, step(number, kind="model"))
        reap(harness.database, run_id)
        states.append(harness.run_row(run_id).status)
        with harness.database.write() as connection:
            end_steps(connection, [StepEnded(id=f"stp_{number}", status="done")])

    assert states == ["queued"] * ALWAYS_SUSPECT_AFTER + ["dead"]


def test_the_crash_of_a_suspect_is_not_counted_against_its_neighbours(
    harness: JournalHarness, caplog: pytest.LogCaptureFixture
) -> None:
    guilty, innocent = harness.accept().run_id, harness.accept().run_id
    for number in range(SUSPECT_AFTER):
        lost(harness, guilty, step(number))
        reap(harness.database, guilty)
    lost(harness, innocent)
    lost(harness, guilty, step(SUSPECT_AFTER))

    assert unowned_runs(harness.database) == [innocent, guilty], "the suspect last, so that it is there to be seen"
    caplog.clear()
    for run_id in (innocent, guilty):
        reap(harness.database, run_id)

    assert [record.getMessage().partition(" during=")[0] for record in caplog.records] == [
        f"run lost its owner run_id={innocent} crashes=0 (not held against it: a suspect was beside it)",
        f"run lost its owner run_id={guilty} crashes={SUSPECT_AFTER + 1}",
    ]
    rows = [harness.run_row(run_id) for run_id in (innocent, guilty)]
    assert [(row.status, row.crashes) for row in rows] == [("queued", 0), ("queued", SUSPECT_AFTER + 1)]
    assert announced(harness, innocent) == 2


@pytest.mark.parametrize("is_first", [True, False])
def test_a_suspect_that_was_not_alone_is_alone_before_it_ends(harness: JournalHarness, is_first: bool) -> None:
    """The process had another run, in whichever order the two are reaped: it may have been ended from outside."""
    suspect, beside = harness.accept().run_id, harness.accept().run_id
    for number in range(SUSPECT_AFTER):
        lost(harness, suspect, step(number))
        reap(harness.database, suspect)
    lost(harness, beside)
    lost(harness, suspect, step(SUSPECT_AFTER))

    for run_id in (suspect, beside) if is_first else (beside, suspect):
        reap(harness.database, run_id)

    assert harness.run_row(suspect).status == "queued"
    assert [crash.get("alone") for crash in run_data(harness, suspect)["crashes"]] == [None] * SUSPECT_AFTER + [False]
    lease = harness.claim(suspect)
    assert lease is not None
    assert (lease.is_suspect, lease.must_be_alone, lease.can_be_cleared) == (True, True, True)
    harness.expire_lease(suspect)
    assert reap(harness.database, suspect) is not None
    assert harness.run_row(suspect).status == "dead"


def test_a_run_that_shared_an_earlier_owner_was_alone_with_its_last_one(harness: JournalHarness) -> None:
    suspect, beside = harness.accept().run_id, harness.accept().run_id
    for number in range(SUSPECT_AFTER):
        lost(harness, suspect, step(number))
        reap(harness.database, suspect)
    harness.own(suspect)
    lost(harness, beside)
    reap(harness.database, beside)  # from its owner, which was lost for another run's reason
    with harness.database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == suspect).values(owner="own_2", lease_until=0))

    reap(harness.database, suspect)

    assert harness.run_row(suspect).status == "dead"


@pytest.mark.parametrize("is_guilty_first", [True, False])
def test_a_suspect_is_last_also_where_its_neighbours_crashed_as_often(
    harness: JournalHarness, monkeypatch: pytest.MonkeyPatch, is_guilty_first: bool
) -> None:
    model: dict[str, Any] = {"kind": "model", "name": "m", "effect": None, "call_id": None}
    run_ids = [harness.accept().run_id for _ in range(4)]
    guilty = run_ids[0 if is_guilty_first else -1]
    innocents = [run_id for run_id in run_ids if run_id != guilty]
    for number in range(SUSPECT_AFTER):
        for run_id in run_ids:
            of_run = {} if run_id == guilty else model
            key = f"{run_id}_{number}"
            lost(harness, run_id, step(id=key, idempotency_key=key, **of_run))
            reap(harness.database, run_id)
    for run_id in run_ids:
        of_run = {} if run_id == guilty else model
        lost(harness, run_id, step(id=run_id, idempotency_key=run_id, **of_run))

    assert unowned_runs(harness.database)[-1] == guilty
    monkeypatch.setattr(reapers, "BATCH", 2)
    assert guilty not in unowned_runs(harness.database), "the others are not all there"
    monkeypatch.undo()
    for run_id in unowned_runs(harness.database):
        reap(harness.database, run_id)

    rows = [harness.run_row(run_id) for run_id in innocents]
    assert [(row.status, row.crashes) for row in rows] == [("queued", SUSPECT_AFTER)] * 3
    assert harness.run_row(guilty).crashes == SUSPECT_AFTER + 1


def test_a_note_of_an_earlier_release_counts_as_if_a_tool_was_at_work() -> None:
    old = {"during": "model demo", "seen": "its lease expired"}

    assert not is_suspect(1, [old])
    assert is_suspect(2, [old, old])
    assert not is_suspect(2, [old, old | {"suspect": False}])


def test_a_dead_run_leaves_a_valid_history(harness: JournalHarness) -> None:
    accepted = harness.accept()
    for number in range(SUSPECT_AFTER + 1):
        lost(harness, accepted.run_id, step(number))
        reap(harness.database, accepted.run_id)

    with harness.database.read() as connection:
        items = Threads(harness.database).messages(ME, accepted.thread_id)
        open_steps = [step_row for step_row in steps_of(connection, accepted.run_id) if step_row["ended_ms"] is None]
    assert open_steps == []
    assert [item["role"] for item in items] == ["user", "tool", "tool", "tool", "error"]
    assert [item.get("outcome") for item in items] == [None, "unknown", "unknown", "unknown", None]
    assert items[1]["result"] == NOT_KNOWN


def test_a_run_that_was_to_stop_and_lost_its_owner_is_cancelled(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id
    owner = harness.own(run_id)
    cancel(harness.database, ME, run_id, "ann")
    harness.expire_lease(run_id)

    done = reap(harness.database, run_id)

    assert done is not None
    assert (done.status, harness.run_row(run_id).crashes) == ("cancelled", 1)
    assert_whole(harness.lines(run_id))
    with pytest.raises(StaleOwner):
        harness.do(owner.message())


def test_many_reapers_at_once_count_one_crash(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id
    lost(harness, run_id)

    done = at_once(RACERS, lambda _: reap(harness.database, run_id))

    assert len([result for result in done if result is not None]) == 1
    assert (harness.run_row(run_id).crashes, announced(harness, run_id)) == (1, 2)


def test_many_reapers_at_once_write_one_end(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id
    for number in range(SUSPECT_AFTER):
        lost(harness, run_id, step(number))
        reap(harness.database, run_id)
    lost(harness, run_id)

    done = at_once(RACERS, lambda _: reap(harness.database, run_id))

    assert [result.status for result in done if result is not None] == ["dead"]
    assert_whole(harness.lines(run_id))


# --- a process that ended on this machine ---------------------------------------------------------


class Process:
    """Another process of this machine, with the id it owns runs by."""

    def __init__(self) -> None:
        script = "from bus.journal.ownership.workers import new_owner_id; print(new_owner_id(), flush=True); input()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.owner = self._process.stdout.readline().strip()

    def kill_unburied(self) -> None:
        """End it, and do not wait for it: it stays a zombie."""
        self._process.kill()
        assert self._process.stdout is not None
        self._process.stdout.read()  # its end of the pipe is closed when it is dead

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def neighbour() -> Iterator[Process]:
    process = Process()
    yield process
    process.end()


needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows when a process began")


@pytest.mark.parity
@needs_proc
def test_a_run_whose_process_ended_here_is_reaped_before_its_lease_ends(
    harness: JournalHarness, neighbour: Process
) -> None:
    owner = harness.own(owner=neighbour.owner)
    run_id = owner.lease.run_id
    assert (unowned_runs(harness.database), reap(harness.database, run_id)) == ([], None)

    neighbour.end()

    assert unowned_runs(harness.database) == [run_id]
    done = reap(harness.database, run_id)
    assert done is not None
    assert done.status == "queued"
    assert run_data(harness, run_id)["crashes"][0]["seen"] == "its process ended"


def test_a_run_of_a_process_of_another_machine_waits_for_its_lease(harness: JournalHarness) -> None:
    owner = harness.own(owner="own_0123456789ab_1_1_elsewhere")

    assert unowned_runs(harness.database) == []
    assert reap(harness.database, owner.lease.run_id) is None


# --- questions without an answer ---------------------------------------------------------------------


def test_an_unanswered_question_ends_its_run_with_a_result_for_the_call(harness: JournalHarness) -> None:
    accepted = harness.accept()
    open_question = question(expires_in_s=-1)
    asks(harness.database, accepted.run_id, open_question)
    assert due(harness.database) == [(accepted.run_id, open_question.id)]

    done = fire(harness.database, accepted.run_id, open_question.id)

    assert done is not None
    lines = harness.lines(accepted.run_id)
    result = next(payload for line in lines if isinstance(payload := decode(line.data), ToolResultPayload))
    run = run_data(harness, accepted.run_id)
    assert_whole(lines)
    assert (run["status"], run["error"]) == ("failed", "approval_expired")
    assert (result.call_id, result.outcome, result.result) == (open_question.call_id, "unknown", NOT_KNOWN)
    with harness.database.read() as connection:
        items = Threads(harness.database).messages(ME, accepted.thread_id)
        assert [
            step_row["ended_ms"] for step_row in steps_of(connection, accepted.run_id) if step_row["ended_ms"] is None
        ] == []
    assert [item["role"] for item in items] == ["user", "assistant", "tool", "error"]
    assert due(harness.database) == []
    assert fire(harness.database, accepted.run_id, open_question.id) is None


@pytest.mark.parametrize(
    ("on_expiry", "default", "decision"),
    [
        (OnExpiry.REJECT, None, Decision(decision="reject", message="no person answered in time")),
        (OnExpiry.TAKE_DEFAULT, {"sent": False}, Decision(decision="take_as_done", result={"sent": False})),
        (OnExpiry.TAKE_DEFAULT, None, Decision(decision="take_as_done", result=NOT_MADE)),
    ],
)
def test_an_unanswered_question_may_have_an_answer_for_that_case(
    harness: JournalHarness, on_expiry: OnExpiry, default: Any, decision: Decision
) -> None:
    run_id = harness.accept().run_id
    open_question = question_before(expires_in_s=-1, on_expiry=on_expiry, default=default)
    asks(harness.database, run_id, open_question)

    assert fire(harness.database, run_id, open_question.id) is not None

    assert answer_of(harness.database, run_id) == decision
    assert harness.run_row(run_id).status == "queued"
    (*_, payload, _) = (decode(line.data) for line in harness.lines(run_id))
    assert isinstance(payload, ApprovalPayload)
    assert payload.by == "expiry"
    assert (due(harness.database), fire(harness.database, run_id, open_question.id)) == ([], None)


def test_a_question_answered_in_time_ends_nothing(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id
    open_question = question()
    asks(harness.database, run_id, open_question)
    decide(harness.database, ME, run_id, open_question.id, Decision(decision="run_again"), by="ann")
    before = harness.run_row(run_id)

    assert fire(harness.database, run_id, open_question.id) is None

    assert harness.run_row(run_id) == before
    assert harness.rows(select(timers).where(timers.c.run_id == run_id)) == []


def test_a_timer_of_a_run_that_ended_is_taken_away(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id
    open_question = question(expires_in_s=-1)
    asks(harness.database, run_id, open_question)
    cancel(harness.database, ME, run_id, "ann")

    assert fire(harness.database, run_id, open_question.id) is None

    assert due(harness.database) == []
    assert_whole(harness.lines(run_id))


def test_a_timer_that_is_not_due_is_not_looked_at(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id
    asks(harness.database, run_id, question(expires_in_s=3600))

    assert due(harness.database) == []


def test_one_of_many_timers_at_once_ends_the_run(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id
    open_question = question(expires_in_s=-1)
    asks(harness.database, run_id, open_question)

    done = at_once(RACERS, lambda _: fire(harness.database, run_id, open_question.id))

    assert [written.status for written in done if written is not None] == ["failed"]
    assert_whole(harness.lines(run_id))


# --- what may begin -------------------------------------------------------------------------------


def test_claimable_are_the_oldest_queued_runs_of_their_threads(harness: JournalHarness) -> None:
    first, second = (harness.accept(thread_id="talk").run_id for _ in range(2))
    waits = harness.accept().run_id
    asks(harness.database, waits)
    owned = harness.own().lease.run_id
    alone = harness.accept().run_id

    assert harness.claimable() == [first, alone]
    assert harness.claim(first) is not None
    assert harness.claimable() == [alone]
    assert {second, waits, owned}.isdisjoint(harness.claimable())


@pytest.mark.parametrize(
    ("names", "expected"), [(("runs",), ["plain", "named"]), (("gpu",), ["gpu"]), (("gpu", "runs"), None), ((), [])]
)
def test_claimable_are_only_runs_of_the_queues_that_are_served(
    harness: JournalHarness, names: tuple[str, ...], expected: list[str] | None
) -> None:
    queues = {"plain": None, "gpu": "gpu", "named": "runs"}
    ids = {name: harness.accept(queue=queue).run_id for name, queue in queues.items()}

    run_ids = harness.claimable(ServedQueues(default="runs", names=names))

    assert run_ids == [ids[name] for name in (expected if expected is not None else queues)]


def test_a_run_that_its_process_is_about_to_execute_is_left_to_it_for_a_while(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id

    UnownedRuns(harness.database, "own_1", 60.0, lambda written: None).defer_polling(run_id)
    assert harness.claimable() == []
    harness.expire_lease(run_id)
    assert harness.claimable() == [run_id]

    assert claim(harness.database, run_id, "own_1", 60.0) is not None


def test_a_hold_is_no_lease(harness: JournalHarness) -> None:
    """A process that defers polling of a queued run keeps pollers away, and no message of the run."""
    run_id = harness.accept().run_id
    UnownedRuns(harness.database, "own_1", 60.0, lambda written: None).defer_polling(run_id)

    assert harness.claim(run_id) is not None


# --- the thread that looks ------------------------------------------------------------------------


def test_one_look_finds_everything_and_publishes_it(harness: JournalHarness, settings: Settings) -> None:
    crashed, unanswered = harness.accept().run_id, harness.accept().run_id
    lost(harness, crashed)
    published: list[CommitResult] = []
    reaper = Reaper(harness.database, settings, published.append, clock=itertools.count(step=100).__next__)
    assert reaper.look() == []  # the lost owner has its last call
    asks(harness.database, unanswered, question(expires_in_s=-1))

    done = reaper.look()

    assert [(outcome.run_id, outcome.status) for outcome in done] == [(crashed, "queued"), (unanswered, "failed")]
    assert published == done
    assert Reaper(harness.database, settings, published.append).look() == []


@pytest.mark.parity
def test_the_reaper_looks_by_itself_and_survives_whatever_goes_wrong(
    small_harness: JournalHarness, settings: Settings
) -> None:
    seen, is_found = [], threading.Event()

    def published(written: CommitResult) -> None:
        seen.append(written.run_id)
        if len(seen) == 1:
            raise RuntimeError("publishing fails")
        is_found.set()

    for _ in range(2):
        lost(small_harness, small_harness.accept().run_id)
    reaper = Reaper(small_harness.database, settings.model_copy(update={"reap_s": 0.01}), published)
    reaper.start()
    reaper.start()
    try:
        assert is_found.wait(20)
    finally:
        reaper.stop()

    statuses = small_harness.rows(select(runs.c.status))
    assert [row.status for row in statuses] == ["queued", "queued"]


@pytest.mark.parametrize("error", [RuntimeError("this is unexpected"), StaleOwner("run_1", 1)])
def test_a_run_that_cannot_be_reaped_keeps_no_other_waiting(
    harness: JournalHarness, settings: Settings, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    bad, good, unanswered = (harness.accept().run_id for _ in range(3))
    lost(harness, bad)
    lost(harness, good)
    asks(harness.database, unanswered, question(expires_in_s=-1))

    def reap_others(database: Database, run_id: str, _: LeaseGrace) -> CommitResult | None:
        if run_id == bad:
            raise error
        return reap(database, run_id)

    monkeypatch.setattr(reapers, "reap", reap_others)

    done = Reaper(harness.database, settings, lambda _: None).look()

    assert [(outcome.run_id, outcome.status) for outcome in done] == [(good, "queued"), (unanswered, "failed")]


@pytest.mark.parametrize("error", [DatabaseUnreachable("gone"), DatabaseBusy("SQLite has one lock for all")])
def test_a_database_that_is_away_is_asked_for_one_run_only(
    small_harness: JournalHarness, settings: Settings, monkeypatch: pytest.MonkeyPatch, error: CallboardError
) -> None:
    run_ids: list[str] = []

    def away(_: Database, run_id: str, __: LeaseGrace) -> None:
        run_ids.append(run_id)
        raise error

    for _ in range(3):
        lost(small_harness, small_harness.accept().run_id)
    monkeypatch.setattr(reapers, "reap", away)

    with pytest.raises(type(error)):
        Reaper(small_harness.database, settings, lambda _: None).look()

    assert len(run_ids) == 1


@pytest.mark.parametrize(
    "error", [DatabaseFull("no space"), DatabaseReadOnly("a standby"), DatabaseUnreachable("gone")]
)
def test_a_last_call_that_no_write_gets_through_is_none(
    harness: JournalHarness, settings: Settings, monkeypatch: pytest.MonkeyPatch, error: CallboardError
) -> None:
    lost(harness, harness.accept().run_id)
    reaper = Reaper(harness.database, settings, lambda _: None, clock=itertools.count(step=100).__next__)
    reaper.look()
    with monkeypatch.context() as outage:
        outage.setattr(reapers, "requeue", Mock(side_effect=error))
        with pytest.raises(type(error)):
            reaper.look()

    assert reaper.look() == []
    assert len(reaper.look()) == 1


def test_a_live_owner_keeps_its_run_during_the_lease_grace(harness: JournalHarness, settings: Settings) -> None:
    """As after an outage longer than a lease: reapers and owners have a database again at the same moment."""
    living, killed = (lost(harness, harness.accept().run_id).writer.lease for _ in range(2))
    now = iter((0.0, 0.0, 0.1, 0.1, 100.0))
    reaper = Reaper(harness.database, settings, lambda _: None, clock=lambda: next(now))

    assert reaper.look() == reaper.look() == []
    beat(harness.database, living.owner, 60, [(living.run_id, living.fence)])

    assert [outcome.run_id for outcome in reaper.look()] == [killed.run_id]
    assert [harness.run_row(lease.run_id).crashes for lease in (living, killed)] == [0, 1]


@pytest.mark.usefixtures("sqlite_url")  # a file of its own, whose log ends where the last commit does
def test_no_grace_begins_on_a_full_disk(small_harness: JournalHarness, settings: Settings, tmp_path: Path) -> None:
    """Heartbeats do not get through, and so the reaper must not: what it writes first has to change a byte."""
    living = lost(small_harness, small_harness.accept().run_id).writer.lease
    reaper = Reaper(small_harness.database, settings, lambda _: None, clock=itertools.count(step=100).__next__)
    with full_disk(tmp_path / "callboard.db-wal"):
        with pytest.raises((DatabaseFull, DatabaseUnreachable)):
            beat(small_harness.database, living.owner, 60, [(living.run_id, living.fence)])
        with pytest.raises((DatabaseFull, DatabaseUnreachable)):
            reaper.look()

    assert reaper.look() == [], "the grace begins"
    beat(small_harness.database, living.owner, 60, [(living.run_id, living.fence)])
    assert reaper.look() == []
    assert small_harness.run_row(living.run_id).crashes == 0


def test_each_owner_of_a_run_has_a_last_call(harness: JournalHarness, settings: Settings) -> None:
    run_id = harness.accept().run_id
    reaper = Reaper(harness.database, settings, lambda _: None, clock=itertools.count(step=100).__next__)
    for _ in range(2):
        lost(harness, run_id)

        assert (reaper.look(), len(reaper.look())) == ([], 1)


@pytest.mark.parity
@needs_proc
def test_a_process_that_ended_here_has_none(harness: JournalHarness, settings: Settings, neighbour: Process) -> None:
    run_id = harness.own(owner=neighbour.owner).lease.run_id
    neighbour.end()

    assert [outcome.run_id for outcome in Reaper(harness.database, settings, lambda _: None).look()] == [run_id]


# --- the thread that sweeps -----------------------------------------------------------------------


class Sweep:
    """Stands where retention's sweep is: one that lasts until it is released, or until it is cancelled."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.may_end, self.is_over = threading.Event(), threading.Event(), threading.Event()
        self.count = 0
        monkeypatch.setattr(reapers, "sweep", self)
        monkeypatch.setattr(reapers, "SWEEP_EVERY_S", 0.0)

    def __call__(self, _database: Database, _settings: Settings, *, pause: Pause) -> None:
        self.count += 1
        self.begun.set()
        try:
            while not self.may_end.is_set():
                pause(0.01)
        finally:
            self.is_over.set()


@pytest.mark.parity
def test_runs_are_reaped_while_a_long_sweep_is_under_way(
    small_harness: JournalHarness, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep, is_reaped = Sweep(monkeypatch), threading.Event()
    quick = settings.model_copy(update={"reap_s": 0.01})
    reaper = Reaper(small_harness.database, quick, lambda _: is_reaped.set())
    reaper.start()
    try:
        assert sweep.begun.wait(20)
        lost(small_harness, small_harness.accept().run_id)
        assert is_reaped.wait(20)
        is_reaped.clear()
        lost(small_harness, small_harness.accept().run_id)
        assert is_reaped.wait(20)
        assert sweep.count == 1
        sweep.begun.clear()
        sweep.may_end.set()
        assert sweep.begun.wait(20)
    finally:
        sweep.may_end.set()
        reaper.stop()


def test_a_sweep_is_cut_off_with_its_reaper(
    small_harness: JournalHarness, settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sweep = Sweep(monkeypatch)
    reaper = Reaper(small_harness.database, settings.model_copy(update={"reap_s": 0.01}), lambda _: None)
    reaper.start()
    assert sweep.begun.wait(20)

    reaper.stop()

    assert sweep.is_over.is_set()
    assert reaper._sweeping is not None
    assert not reaper._sweeping.is_alive()
    assert [record for record in caplog.records if record.levelname in ("ERROR", "WARNING")] == []


def test_a_sweep_that_fails_is_no_end_of_the_reaper(
    small_harness: JournalHarness, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []
    again = threading.Event()

    def fail(*_: object, **__: object) -> None:
        tried.append(len(tried))
        if len(tried) == 3:
            again.set()
        raise DatabaseBusy("locked") if len(tried) == 1 else RuntimeError("this is unexpected")

    monkeypatch.setattr(reapers, "sweep", fail)
    monkeypatch.setattr(reapers, "SWEEP_EVERY_S", 0.0)
    reaper = Reaper(small_harness.database, settings.model_copy(update={"reap_s": 0.01}), lambda _: None)
    reaper.start()
    try:
        assert again.wait(20)
    finally:
        reaper.stop()


def test_a_stopped_reaper_ends_its_thread(small_harness: JournalHarness, settings: Settings) -> None:
    reaper = Reaper(small_harness.database, settings, lambda _: None)
    reaper.start()
    thread = reaper._thread
    assert thread is not None

    reaper.stop()

    assert not thread.is_alive()
