"""`/confirm` and `/tool-data` of the first chat design."""

from __future__ import annotations

from typing import Any

import pytest

from bus.journal.approvals import Decision, Question
from bus.journal.owner import Commit, HistoryItem, StepEnded
from config.identity.principal import LOCAL
from tests.bus.questions import answer_of, asks, question, question_before, question_form
from tests.bus.racing import at_once
from tests.web.conftest import RunOwner

NOTHING = {"next": "done", "tool": "", "args": {}, "response": "", "force_confirm": False}


@pytest.fixture
def waiting(client, journal):
    """Return a maker of runs of a conversation that wait."""

    def make(*questions, thread_id: str = "conversation") -> str:
        run_id = client.post("/send-prompt", json={"prompt": "Do it.", "thread_id": thread_id}).json["run_id"]
        journal.live.publish(asks(journal.database, run_id, *questions))
        return str(run_id)

    return make


def confirm(client, **body: Any):
    return client.post("/confirm", json=body)


@pytest.mark.parity
def test_the_one_call_that_waits_is_approved(client, journal, waiting) -> None:
    open_question = question_before()
    run_id = waiting(open_question)

    json = client.get("/tool-data").json
    confirmed = confirm(client)

    assert (json["next"], json["tool"], json["force_confirm"]) == ("confirm", "refund_order", True)
    assert (json["args"], json["call_id"], json["digest"]) == (
        dict(open_question.arguments),
        open_question.call_id,
        open_question.digest,
    )
    assert confirmed.status_code == 200
    assert confirmed.json == {
        "run_id": run_id,
        "approval_id": open_question.id,
        "decision": "approve",
        "by": "local",
        "status": "queued",
    }
    assert answer_of(journal.database, run_id).decision == "approve"


def test_of_several_calls_one_has_to_be_named(client, waiting) -> None:
    first, second = question_before(), question_before()
    waiting(first, second)

    unnamed = confirm(client)
    named = confirm(client, call_id=second.call_id)
    other = confirm(client, call_id=first.id)

    assert (unnamed.status_code, unnamed.json["code"]) == (409, "several_to_confirm")
    assert [call["call_id"] for call in unnamed.json["pending"]] == [first.call_id, second.call_id]
    assert {call["digest"] for call in unnamed.json["pending"]} == {first.digest}
    assert (named.status_code, named.json["status"]) == (200, "waiting")
    assert (other.status_code, other.json["status"]) == (200, "queued")


@pytest.mark.parametrize(
    ("questions", "body"),
    [
        ((), {}),
        ((question,), {}),
        ((question_form,), {}),
        ((question_before,), {"call_id": "call_other"}),
        ((question_before,), {"thread_id": "other"}),
    ],
)
def test_nothing_else_can_be_confirmed(client, waiting, questions, body) -> None:
    if questions:
        waiting(*(make() for make in questions))

    answer = confirm(client, **body)

    assert (answer.status_code, answer.json["code"]) == (409, "nothing_to_confirm")


def test_another_digest_than_the_shown_one_confirms_nothing(client, waiting) -> None:
    waiting(question_before())

    answer = confirm(client, digest="0" * 64)

    assert (answer.status_code, answer.json["code"]) == (409, "arguments_differ")


def test_a_second_confirmation_finds_nothing_and_the_same_request_finds_the_first(client, waiting) -> None:
    open_question = question_before()
    waiting(open_question, question_form())

    def again(key: str):
        return client.post("/confirm", json={}, headers={"Idempotency-Key": key})

    assert again("a").status_code == 200
    assert again("b").json["code"] == "nothing_to_confirm"


def test_one_of_many_confirmations_at_once_counts(client, waiting) -> None:
    waiting(question_before())

    answers = at_once(8, lambda number: client.post("/confirm", json={}))

    assert sorted(answer.status_code for answer in answers) == [200, *[409] * 7]


def test_a_question_is_shown_and_without_any_the_conversation_is_done(client, waiting) -> None:
    assert client.get("/tool-data").json == NOTHING
    waiting(question_form())

    json = client.get("/tool-data").json

    assert (json["next"], json["response"]) == ("question", "Where should the parcel go?")


def test_the_latest_call_is_shown_while_it_is_made_and_once_it_has_ended(client, journal, waiting) -> None:
    earlier, latest = question_before(), question_before()
    run_id = waiting(earlier, latest)
    edited = {"order": 7}
    journal.clients.decide(LOCAL, run_id, earlier.id, Decision(decision="reject"), by="ada")
    journal.clients.decide(LOCAL, run_id, latest.id, Decision(decision="approve", arguments=edited), by="ada")

    planned = client.get("/tool-data").json
    end_call(journal, run_id, latest, result={"refunded": 5})
    ended = client.get("/tool-data").json

    named = NOTHING | {"tool": latest.name, "args": edited, "run_id": run_id, "call_id": latest.call_id}
    assert planned == named | {"status": "planned"}
    assert ended == named | {"status": "done", "result": {"refunded": 5}, "response": "It is refunded."}
    assert client.get("/tool-data?thread_id=other").json == NOTHING


def end_call(journal, run_id: str, call: Question, result: Any) -> None:
    """Record the call's result as the run's next owner does."""
    owner = RunOwner(journal, run_id)
    data = {"call_id": call.call_id, "name": call.name, "outcome": "done", "result": result}
    change = Commit(
        events=(),
        ended=(StepEnded(id=call.step_id, status="done", result=result),),
        history=(HistoryItem(id="msg_result", role="tool", data=data),),
    )
    journal.loop.run(owner.writer.commit(change))
    owner.finish("It is refunded.")
