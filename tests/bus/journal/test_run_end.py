"""An end written without an owner says of the run what its owner's would have said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from sqlalchemy import update

from agents.errors import run_failed
from bus.journal.approvals import Decision
from bus.journal.decisions.decisions import decide
from bus.journal.log.commit import Commit
from bus.journal.log.events import undelivered
from bus.journal.log.progress import read_progress
from bus.journal.ownership.reaper import fire, reap
from bus.journal.queries.runs import Runs
from bus.journal.queries.threads import Threads
from bus.journal.records.steps import StepEnded, StepStarted, Totals, steps_of
from bus.journal.run_end import NOT_FINISHED, NOT_KNOWN, result_of_cut_off
from bus.journal.states.codes import STOPPED, Ending
from bus.payloads import EndPayload, ToolResultPayload, decode
from config.database.tables import runs, steps
from config.identity.principal import Principal
from tests.bus.journal_harness import JournalHarness, assert_whole, cancel
from tests.bus.questions import asks, question

ME = Principal()
USED = ({"input_tokens": 10, "output_tokens": 7}, {"input_tokens": 30, "cached_tokens": 20})


def model_step(number: int) -> StepStarted:
    return StepStarted(
        id=f"stp_m{number}", kind="model", name="demo", arguments_digest="a", idempotency_key=f"m{number}"
    )


def tool_step(number: int, effect: str | None = "unsafe", status: str = "started") -> StepStarted:
    return StepStarted(
        id=f"stp_t{number}",
        kind="tool",
        name="pay",
        arguments_digest="a",
        idempotency_key=f"t{number}",
        call_id=f"call_{number}",
        effect=effect,
        status=status,
    )


def spends(harness: JournalHarness, run_id: str) -> None:
    """Have an owner record two answered model calls and one that failed, and be lost."""
    owner = harness.own(run_id)
    commits = [
        Commit(started=[model_step(1)]),
        Commit(ended=[StepEnded(id="stp_m1", status="done", usage=USED[0], cost_usd=0.5)], started=[model_step(2)]),
        Commit(ended=[StepEnded(id="stp_m2", status="done", usage=USED[1], cost_usd=None)], started=[model_step(3)]),
        Commit(ended=[StepEnded(id="stp_m3", status="failed", usage={"output_tokens": 1}, cost_usd=0.25)]),
    ]
    for change in commits:
        harness.do(owner.writer.commit(change))
    requeue(harness, run_id)


def requeue(harness: JournalHarness, run_id: str) -> None:
    harness.expire_lease(run_id)
    reap(harness.database, run_id)
    with harness.database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == run_id).values(crashes=0, crashes_json=None))


def stopped_in_the_queue(harness: JournalHarness, run_id: str) -> None:
    cancel(harness.database, ME, run_id, "ann")


def stopped_while_it_waits(harness: JournalHarness, run_id: str) -> None:
    asks(harness.database, run_id)
    cancel(harness.database, ME, run_id, "ann")


def never_answered(harness: JournalHarness, run_id: str) -> None:
    open_question = question(expires_in_s=-1)
    asks(harness.database, run_id, open_question)
    fire(harness.database, run_id, open_question.id)


def stopped_and_lost(harness: JournalHarness, run_id: str) -> None:
    harness.own(run_id)
    cancel(harness.database, ME, run_id, "ann")
    harness.expire_lease(run_id)
    reap(harness.database, run_id)


def dead(harness: JournalHarness, run_id: str) -> None:
    while harness.run_row(run_id).status != "dead":
        harness.own(run_id)
        harness.expire_lease(run_id)
        reap(harness.database, run_id)


def end_of(harness: JournalHarness, run_id: str) -> EndPayload:
    end = decode(harness.lines(run_id)[-1].data)
    assert isinstance(end, EndPayload)
    return end


@pytest.mark.parametrize(
    ("ends", "status", "began"),
    [
        (stopped_in_the_queue, "cancelled", 3),
        (stopped_while_it_waits, "cancelled", 4),
        (never_answered, "failed", 4),
        (stopped_and_lost, "cancelled", 3),
        (dead, "dead", 3),
    ],
)
def test_what_the_run_used_is_in_its_end_and_its_row(
    harness: JournalHarness, ends: Callable[[JournalHarness, str], None], status: str, began: int
) -> None:
    run_id = harness.accept().run_id
    spends(harness, run_id)

    ends(harness, run_id)

    end, row = end_of(harness, run_id), harness.run_row(run_id)
    used = {"input_tokens": 40, "output_tokens": 8, "cached_tokens": 20}
    assert (end.status, row.status) == (status, status)
    assert (end.usage, end.cost_usd, end.steps) == (used, 0.75, began)
    assert (orjson.loads(row.usage_json), row.cost_usd, row.steps) == (used, 0.75, began)
    assert_whole(harness.lines(run_id))


def test_it_is_what_an_owner_would_have_gone_on_from(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id
    spends(harness, run_id)
    asks(harness.database, run_id)
    with harness.database.read() as connection:
        progress = read_progress(connection, run_id)

    cancel(harness.database, ME, run_id, "ann")

    end = end_of(harness, run_id)
    assert Totals(steps=end.steps or 0, usage=end.usage or {}, cost_usd=end.cost_usd) == progress.totals


def test_a_step_that_was_begun_with_the_claim_is_counted(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id
    asks(harness.database, run_id)  # its only step is part of the claim

    cancel(harness.database, ME, run_id, "ann")

    assert Runs(harness.database).get(ME, run_id)["steps"] == end_of(harness, run_id).steps == 1


def test_a_run_that_never_began_used_nothing(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id

    cancel(harness.database, ME, run_id, "ann")

    end, row = end_of(harness, run_id), harness.run_row(run_id)
    assert (end.usage, end.cost_usd, end.steps) == (None, None, 0)
    assert (row.usage_json, row.cost_usd, row.steps) == (None, None, 0)


def test_what_a_later_release_recorded_does_not_keep_the_run_from_its_end(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id
    spends(harness, run_id)
    with harness.database.write() as connection:
        connection.execute(update(steps).where(steps.c.run_id == run_id).values(result_json='["of another form"]'))

    cancel(harness.database, ME, run_id, "ann")

    assert end_of(harness, run_id).cost_usd == 0.75


# --- calls that were cut off ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("effect", "outcome"),
    [
        ("pure", "cancelled"),
        ("idempotent", "unknown"),
        ("keyed", "unknown"),
        ("checkable", "unknown"),
        ("unsafe", "unknown"),
        (None, "cancelled"),
    ],
)
def test_the_outcome_of_a_call_is_unknown_unless_it_is_pure(
    harness: JournalHarness, effect: str | None, outcome: str
) -> None:
    accepted = harness.accept()
    owner = harness.own(accepted.run_id)
    harness.do(owner.writer.commit(Commit(started=[tool_step(1, effect), tool_step(2, effect, "planned")])))
    harness.expire_lease(accepted.run_id)

    cancel(harness.database, ME, accepted.run_id, "ann")

    results = [
        payload
        for line in harness.lines(accepted.run_id)
        if isinstance(payload := decode(line.data), ToolResultPayload)
    ]
    assert [(result.call_id, result.outcome) for result in results] == [("call_1", outcome), ("call_2", "cancelled")]
    assert results[0].result == (NOT_KNOWN if outcome == "unknown" else NOT_FINISHED)
    with harness.database.read() as connection:
        ended = [(step["status"], step["ended_ms"] is not None) for step in steps_of(connection, accepted.run_id)]
        items: list[Any] = Threads(harness.database).messages(ME, accepted.thread_id)
    assert ended == [(outcome, True), ("cancelled", True)]
    assert [item.get("outcome") for item in items] == [None, outcome, "cancelled", None]


@pytest.mark.parametrize("effect", ["pure", "idempotent", "keyed", "checkable", "unsafe", None])
def test_of_a_call_that_was_not_begun_it_is_known(effect: str | None) -> None:
    failed = Ending.failed(run_failed())

    assert result_of_cut_off(effect, None, STOPPED, is_begun=False) == ("cancelled", NOT_FINISHED)
    assert result_of_cut_off(effect, None, failed, is_begun=False) == ("failed", NOT_FINISHED)


@pytest.mark.parametrize(
    ("answer", "outcome", "result"),
    [
        (Decision(decision="take_as_done", result="by post"), "done", "by post"),
        (Decision(decision="take_as_done"), "done", "Done, as a person confirmed."),
        (Decision(decision="run_again"), "unknown", NOT_KNOWN),
    ],
)
def test_a_persons_decision_counts_also_where_the_run_was_not_resumed(
    harness: JournalHarness, answer: Decision, outcome: str, result: str
) -> None:
    run_id, open_question = harness.accept().run_id, question()
    asks(harness.database, run_id, open_question)
    decide(harness.database, ME, run_id, open_question.id, answer, by="ann")

    cancel(harness.database, ME, run_id, "ann")

    (items,) = [p for line in harness.lines(run_id) if isinstance(p := decode(line.data), ToolResultPayload)]
    assert (items.outcome, items.result) == (outcome, result)


def test_observers_get_a_long_result_that_a_person_gave_whole(harness: JournalHarness) -> None:
    run_id, open_question = harness.accept().run_id, question()
    asks(harness.database, run_id, open_question)
    decide(
        harness.database,
        ME,
        run_id,
        open_question.id,
        Decision(decision="take_as_done", result="post " * 1000),
        by="ann",
    )
    cancel(harness.database, ME, run_id, "ann")

    row = harness.run_row(run_id)
    with harness.database.read() as connection:
        missed = undelivered(connection, run_id, row.owned_fence, row.fence + 1)

    (result,) = [payload for payload in missed if isinstance(payload, ToolResultPayload)]
    assert (result.result, result.extra) == ("post " * 1000, {})
