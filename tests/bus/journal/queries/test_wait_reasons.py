"""What each open run waits for, said in one sentence."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import update

from bus.journal.controls import CONTROLS
from bus.journal.mailbox.control import control
from bus.journal.ownership.workers import WorkerRow, Workers
from bus.journal.queries.runs import Runs
from bus.journal.queries.wait_reasons import MAX_CALL_CHARS, short_call
from bus.journal.records.steps import StepStarted, start_steps
from config.clock import epoch_ms
from config.database.tables import runs, steps
from config.identity.principal import LOCAL, Principal
from tests.bus.journal_harness import JournalHarness, cancel
from tests.bus.questions import asks, question

ME = Principal()


def sentences(harness: JournalHarness, principal: Principal = LOCAL) -> dict[str, tuple[str, str]]:
    return {
        explanation.run_id: (explanation.waits_for, explanation.sentence)
        for explanation in Runs(harness.database).explain(principal)
    }


def alive(harness: JournalHarness, owner: str = "own_1", slots: int = 4, busy: int = 0, **more: Any) -> None:
    row = WorkerRow(id=owner, host="box", pid=17, pool="threads", slots=slots, busy=busy, **more)
    Workers(harness.database).renew(row)


def test_a_run_without_workers_waits_for_one(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id

    waits_for, sentence = sentences(harness)[run_id]

    assert waits_for == "worker"
    assert "no worker is alive" in sentence
    assert "`./callboard worker`" in sentence


@pytest.mark.parametrize(
    ("busy", "code", "expected"), [(1, "wake_up", "3 of 4 slots free"), (4, "slot", "4 slots are taken")]
)
def test_a_queued_run_says_how_many_slots_there_are(
    harness: JournalHarness, busy: int, code: str, expected: str
) -> None:
    run_id = harness.accept().run_id
    alive(harness, busy=busy)

    waits_for, sentence = sentences(harness)[run_id]

    assert waits_for == code
    assert "1 worker alive" in sentence
    assert expected in sentence


def test_a_queue_that_no_worker_serves_is_named_with_the_command_that_serves_it(harness: JournalHarness) -> None:
    painted, plain = harness.accept(queue="gpu").run_id, harness.accept().run_id
    alive(harness, queue="runs", queues=("runs",))

    explanations = sentences(harness)

    sentence = "queued, and no worker serves queue 'gpu'; start one: `./callboard worker --queues gpu`."
    assert explanations[painted] == ("worker", sentence)
    assert explanations[plain][0] == "wake_up"
    alive(harness, "own_2", slots=3, queue="runs", queues=("gpu",))
    assert "1 worker alive, 3 of 3 slots free" in sentences(harness)[painted][1]


def test_a_default_queue_that_no_worker_serves_is_called_so(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id
    alive(harness, queue="runs", queues=("gpu",))

    assert "no worker alive serves the default queue" in sentences(harness)[run_id][1]


def test_a_run_behind_another_of_its_thread_names_it(harness: JournalHarness) -> None:
    first, second, third = (harness.accept(thread_id="mine").run_id for _ in range(3))
    other = harness.accept(thread_id="other").run_id
    harness.own(first)

    explanations = sentences(harness)

    assert explanations[second] == ("turn", f"queued behind {first} of its thread, which is running.")
    assert explanations[third] == ("turn", f"queued behind {first} of its thread, which is running.")
    assert explanations[other][0] == "worker"


def test_a_running_run_says_which_step_since_when_and_where(harness: JournalHarness) -> None:
    owner = harness.own()
    alive(harness)
    step = StepStarted(id="stp_1", kind="tool", name="lookup", arguments_digest="d", idempotency_key="k")
    with harness.database.write() as connection:
        start_steps(connection, owner.lease.run_id, owner.lease.fence, [step])
        connection.execute(update(steps).values(started_ms=epoch_ms() - 42_000))

    waits_for, sentence = sentences(harness)[owner.lease.run_id]

    assert waits_for == "step"
    assert sentence == "calling the tool lookup for 42 s (step 1), on worker box:17."
    (unnamed,) = sentences(harness, ME).values()
    assert unnamed == ("step", "calling the tool lookup for 42 s (step 1), on a worker.")


def test_a_run_whose_lease_ran_out_is_about_to_be_taken_over(harness: JournalHarness) -> None:
    run_id = harness.own().lease.run_id
    harness.expire_lease(run_id)

    assert sentences(harness)[run_id][0] == "owner"


def test_a_stop_that_the_owner_has_not_seen_says_principal_asked(harness: JournalHarness) -> None:
    run_id = harness.own().lease.run_id
    cancel(harness.database, ME, run_id, by="ann")

    waits_for, sentence = sentences(harness)[run_id]

    assert waits_for == "stop"
    assert sentence.startswith("was asked to stop by ann 0 s ago; it was between two steps")


def test_a_pause_that_is_not_yet_made_is_named_until_it_is_taken_back(harness: JournalHarness) -> None:
    run_id = harness.own().lease.run_id
    control(harness.database, ME, run_id, CONTROLS["pause"], by="ann")
    paused = sentences(harness)[run_id]
    control(harness.database, ME, run_id, CONTROLS["resume"], by="ann")

    assert paused[0] == "step"
    assert paused[1].endswith("; it pauses behind this step, which was requested by ann 0 s ago.")
    assert "pauses" not in sentences(harness)[run_id][1]


def test_a_question_is_shown_with_its_call_its_time_and_the_command(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id
    asks(harness.database, run_id, question(), question("send_mail", {}))

    waits_for, sentence = sentences(harness)[run_id]

    assert waits_for == "answer"
    assert 'refund_order(order=1042, amount="88.00 EUR", to="Okafor & Co") and 1 more, until 20' in sentence
    assert f"`./callboard approve {run_id}`" in sentence


def test_a_run_that_waits_for_code_says_for_which(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id
    detail = "Waits for a worker whose tool refund_order is the one it was asked with."
    with harness.database.write() as connection:
        connection.execute(update(runs).values(status="waiting", reason="code_version", detail=detail))

    assert sentences(harness)[run_id] == ("code", detail)


def test_ended_and_other_principals_runs_are_not_explained(harness: JournalHarness) -> None:
    ended = harness.accept().run_id
    cancel(harness.database, ME, ended, by="ann")
    foreign = harness.accept(principal=Principal(id="eve")).run_id

    assert Runs(harness.database).explain(ME) == []
    assert [Runs(harness.database).explain(ME, run_id=run_id) for run_id in (ended, foreign)] == [[], []]


def test_of_one_thread_or_agent_none_is_missed_behind_many_others(
    harness: JournalHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    for thread_id in ("theirs", "mine"):
        harness.accept(thread_id=thread_id, agent_id=thread_id)
    monkeypatch.setattr("bus.journal.queries.wait_reasons.MOST", 1)

    of_thread = Runs(harness.database).explain(ME, thread_id="mine")
    of_agent = Runs(harness.database).explain(ME, agent="mine")
    of_neither = Runs(harness.database).explain(ME, agent="mine", thread_id="theirs")

    assert [entry.thread_id for entry in (*of_thread, *of_agent)] == ["mine", "mine"]
    assert of_neither == []


def test_one_run_is_explained_as_in_the_list(harness: JournalHarness) -> None:
    harness.accept(thread_id="mine")
    second = harness.accept(thread_id="mine").run_id

    (explanation,) = Runs(harness.database).explain(ME, run_id=second)
    assert explanation in Runs(harness.database).explain(ME)


def test_a_long_call_is_cut() -> None:
    call = short_call("write_file", {"path": "a.txt", "content": "x" * 5000})

    assert len(call) == MAX_CALL_CHARS
    assert call.startswith('write_file(path="a.txt", content="xxx')
    assert call.endswith("…)")
