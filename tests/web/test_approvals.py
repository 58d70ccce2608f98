"""Answering what a run asks, over HTTP; and keys that make a repeated answer or stop the same one."""

from __future__ import annotations

import orjson
import pytest

from config.identity.principal import Principal
from config.ids import canonical_digest
from tests.bus.questions import (
    ADDRESS,
    REFUND,
    SCHEMA,
    WHY,
    answer_of,
    asks,
    question,
    question_before,
    question_form,
    question_missing,
)
from tests.bus.racing import at_once
from tests.web.conftest import RunOwner, accept

JSON = "application/json"


@pytest.fixture
def waiting(runner):
    """Return a maker of runs that wait: it returns the run's id and those of its questions."""

    def make(*questions) -> tuple[str, list[str]]:
        open_questions = questions or (question(),)
        run_id = accept(runner)
        runner.journal.live.publish(asks(runner.journal.database, run_id, *open_questions))
        return run_id, [open_question.id for open_question in open_questions]

    return make


def decide(client, run_id: str, approval_id: str, headers: dict[str, str] | None = None, **body: object):
    return client.post(f"/v1/runs/{run_id}/approvals/{approval_id}", json=body, headers=headers or {})


def test_the_open_questions_say_everything_one_needs_to_decide(client, waiting) -> None:
    run_id, (approval_id,) = waiting()

    (approval,) = client.get(f"/v1/runs/{run_id}/approvals").json["approvals"]

    assert approval["approval_id"] == approval_id
    assert (approval["name"], approval["arguments"], approval["reason"]) == ("refund_order", REFUND, WHY)
    assert approval["decisions"] == ["run_again", "take_as_done", "fail"]
    assert approval["expires_at"] > approval["asked_at"]
    assert client.get(f"/v1/runs/{run_id}").json["approvals"] == [approval]


def test_an_answer_says_what_was_decided_and_the_run_continues(client, waiting) -> None:
    run_id, (approval_id,) = waiting()

    answer = decide(client, run_id, approval_id, decision="run_again", message="the bank has nothing")

    assert answer.status_code == 200
    assert answer.json == {
        "run_id": run_id,
        "approval_id": approval_id,
        "decision": "run_again",
        "by": "local",
        "status": "queued",
    }
    assert client.get(f"/v1/runs/{run_id}/approvals").json == {"approvals": []}
    events = client.get(f"/v1/runs/{run_id}/events", headers={"Accept": JSON}).json["events"]
    assert [event["type"] for event in events][-2:] == ["approval", "status"]
    assert (events[-2]["decision"], events[-2]["by"], events[-2]["reason"]) == (
        "run_again",
        "local",
        "the bank has nothing",
    )


@pytest.mark.parametrize("result", [None, "done by hand", {"refund": [7, 1.5]}, [], 0, False, ""])
def test_taken_as_done_with_any_result(client, waiting, runner, result) -> None:
    run_id, (approval_id,) = waiting()
    body = {"decision": "take_as_done"} | ({} if result is None else {"result": result})

    answer = decide(client, run_id, approval_id, **body)

    assert answer.status_code == 200
    decision = answer_of(runner.journal.database, run_id)
    assert (decision.decision, decision.result) == ("take_as_done", result)


def test_a_question_before_a_call_says_what_may_be_changed(client, waiting) -> None:
    run_id, _ = waiting(question_before())

    (approval,) = client.get(f"/v1/runs/{run_id}/approvals").json["approvals"]

    assert (approval["kind"], approval["decisions"], approval["input_schema"]) == (
        "call",
        ["approve", "reject"],
        SCHEMA,
    )
    assert approval["effect"] == "unsafe"


GIVEN = {"street": "Main St 7", "speed": "fast", "is_gift": False}


def test_a_question_with_a_form_says_what_to_fill_in_and_takes_it(client, waiting) -> None:
    run_id, (approval_id,) = waiting(question_form())
    (approval,) = client.get(f"/v1/runs/{run_id}/approvals").json["approvals"]

    answer = decide(client, run_id, approval_id, decision="answer", result=GIVEN)

    assert (approval["kind"], approval["decisions"], approval["input_schema"]) == (
        "input",
        ["answer", "reject"],
        ADDRESS,
    )
    assert (answer.status_code, answer.json["status"]) == (200, "queued")
    events = client.get(f"/v1/runs/{run_id}/events", headers={"Accept": JSON}).json["events"]
    before, after = [event for event in events if event["type"] == "approval"]
    assert (before["kind"], before["form"], after["answer"]) == ("input", ADDRESS, GIVEN)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"decision": "answer"}, 422, "answer_refused"),
        ({"decision": "answer", "result": None}, 422, "answer_refused"),
        ({"decision": "answer", "result": "Main St 7"}, 422, "answer_refused"),
        ({"decision": "answer", "result": GIVEN | {"speed": "\u202efast"}}, 422, "answer_refused"),
        ({"decision": "answer", "result": GIVEN, "digest": "0" * 64}, 409, "arguments_differ"),
        ({"decision": "answer", "result": GIVEN, "digest": "no digest"}, 400, "bad_request"),
        ({"decision": "answer", "arguments": GIVEN}, 400, "bad_request"),
        ({"decision": "reject", "result": GIVEN}, 400, "bad_request"),
        ({"decision": "approve"}, 400, "decision_refused"),
    ],
)
def test_an_answer_that_does_not_fit_decides_nothing(client, waiting, body, status, code) -> None:
    run_id, (approval_id,) = waiting(question_form())

    answer = decide(client, run_id, approval_id, **body)

    assert (answer.status_code, answer.json["code"]) == (status, code)
    assert client.get(f"/v1/runs/{run_id}").json["status"] == "waiting"


def test_missing_arguments_are_filled_in(client, waiting) -> None:
    run_id, (approval_id,) = waiting(question_missing())

    answer = decide(client, run_id, approval_id, decision="answer", result={"amount": 8.5})

    assert answer.status_code == 200
    events = client.get(f"/v1/runs/{run_id}/events", headers={"Accept": JSON}).json["events"]
    (_, after) = [event for event in events if event["type"] == "approval"]
    assert (after["arguments"], after["digest"]) == (
        {"order": 7, "amount": 8.5},
        canonical_digest({"order": 7, "amount": 8.5}),
    )


def test_a_call_is_approved_with_other_arguments(client, waiting, runner) -> None:
    run_id, (approval_id,) = waiting(question_before())

    answer = decide(client, run_id, approval_id, decision="approve", arguments={"order": 7})

    assert answer.status_code == 200
    assert answer_of(runner.journal.database, run_id).arguments == {"order": 7}
    events = client.get(f"/v1/runs/{run_id}/events", headers={"Accept": JSON}).json["events"]
    (_, event) = [entry for entry in events if entry["type"] == "approval"]
    assert (event["decision"], event["arguments"], event["digest"]) == (
        "approve",
        {"order": 7},
        canonical_digest({"order": 7}),
    )


@pytest.mark.parametrize("arguments", [{}, {"order": 0}, {"order": "7"}, {"order": 7, "to": "me"}, {"order": 7.5}])
def test_arguments_that_do_not_fit_the_tool_are_422_and_decide_nothing(client, waiting, arguments) -> None:
    run_id, (approval_id,) = waiting(question_before())

    answer = decide(client, run_id, approval_id, decision="approve", arguments=arguments)

    assert (answer.status_code, answer.json["code"]) == (422, "edit_refused")
    assert len(client.get(f"/v1/runs/{run_id}/approvals").json["approvals"]) == 1


def test_the_open_questions_of_all_runs_come_in_pages(client, waiting) -> None:
    expected = [waiting(question_before()) for _ in range(3)]
    pairs, before = [], None

    for _ in range(2):
        page = client.get("/v1/approvals", query_string={"limit": 2} | ({"before": before} if before else {})).json
        pairs += [(approval["run_id"], [approval["approval_id"]]) for approval in page["approvals"]]
        before = page.get("next")

    assert pairs == expected[::-1]
    assert before is None


def test_with_another_question_open_the_run_waits_on(client, waiting) -> None:
    run_id, (first, second) = waiting(question(), question("send_mail", {}))

    assert decide(client, run_id, first, decision="fail").json["status"] == "waiting"
    assert [approval["approval_id"] for approval in client.get(f"/v1/runs/{run_id}/approvals").json["approvals"]] == [
        second
    ]


def test_a_second_answer_gets_the_one_that_won(client, waiting) -> None:
    run_id, (approval_id,) = waiting()
    decide(client, run_id, approval_id, decision="take_as_done")

    answer = decide(client, run_id, approval_id, decision="run_again")

    assert (answer.status_code, answer.content_type) == (409, "application/problem+json")
    assert answer.json["code"] == "approval_decided"
    assert (answer.json["decision"], answer.json["by"]) == ("take_as_done", "local")


def test_of_many_at_once_one_wins(app, waiting) -> None:
    run_id, (approval_id,) = waiting()
    choices = ("run_again", "fail")

    answers_ = at_once(12, lambda n: decide(app.test_client(), run_id, approval_id, decision=choices[n % 2]))

    (won,) = [response for response in answers_ if response.status_code == 200]
    assert [response.status_code for response in answers_].count(409) == 11
    assert {response.json["decision"] for response in answers_} == {won.json["decision"]}


# --- what is refused ------------------------------------------------------------------------------


def test_an_unknown_run_and_an_unknown_question_are_404(client, waiting) -> None:
    run_id, (approval_id,) = waiting()
    other, _ = waiting()

    answers = [
        decide(client, "run_nothere", approval_id, decision="fail"),
        decide(client, run_id, "apr_nothere", decision="fail"),
        decide(client, other, approval_id, decision="fail"),
        client.get("/v1/runs/run_nothere/approvals"),
    ]

    assert [answer.status_code for answer in answers] == [404] * 4
    codes = ["run_unknown", "approval_unknown", "approval_unknown", "run_unknown"]
    assert [answer.json["code"] for answer in answers] == codes


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ({}, "bad_request", "'decision' is missing"),
        ({"decision": 1}, "bad_request", "one of approve, reject, run_again, take_as_done, fail"),
        ({"decision": "approve"}, "decision_refused", "run_again, take_as_done, fail"),
        ({"decision": "x" * 41}, "bad_request", "the limit is 40"),
        ({"decision": "fail", "reslut": 1}, "bad_request", "Did you mean 'result'?"),
        ({"decision": "fail", "result": 1}, "bad_request", "take_as_done"),
        ({"decision": "run_again", "result": False}, "bad_request", "take_as_done"),
        ({"decision": "reject", "arguments": {}}, "bad_request", '"approve" only'),
        ({"decision": "approve", "arguments": [1]}, "bad_request", "arguments"),
        ({"decision": "approve", "arguments": {"x": "x" * 262_145}}, "bad_request", "the limit is 262,144"),
        ({"decision": "fail", "message": "x" * 2001}, "bad_request", "the limit is 2,000"),
        ({"decision": "fail", "message": None}, "bad_request", "has to be text"),
        ({"decision": "take_as_done", "result": "x" * 262_145}, "bad_request", "the limit is 262,144"),
    ],
)
def test_a_body_that_cannot_be_meant_is_400(client, waiting, body, code: str, message: str) -> None:
    run_id, (approval_id,) = waiting()

    answer = decide(client, run_id, approval_id, **body)

    assert (answer.status_code, answer.json["code"]) == (400, code)
    assert message in answer.json["detail"]
    assert client.get(f"/v1/runs/{run_id}").json["status"] == "waiting"


def test_a_form_is_no_answer(client, waiting) -> None:
    run_id, (approval_id,) = waiting()

    answer = client.post(f"/v1/runs/{run_id}/approvals/{approval_id}", data={"decision": "fail"})

    assert (answer.status_code, answer.json["code"]) == (415, "media_type_refused")


def test_a_stopped_run_takes_no_answer_any_more(client, waiting) -> None:
    run_id, (approval_id,) = waiting()
    assert client.post(f"/v1/runs/{run_id}/cancel").json["status"] == "cancelled"

    answer = decide(client, run_id, approval_id, decision="run_again")

    assert (answer.status_code, answer.json["code"]) == (409, "approval_over")
    assert client.get(f"/v1/runs/{run_id}/approvals").json == {"approvals": []}


# --- the same request again -----------------------------------------------------------------------


def test_the_same_key_and_answer_is_the_same_decision(client, waiting) -> None:
    run_id, (approval_id,) = waiting()
    key = {"Idempotency-Key": "once"}

    first = decide(client, run_id, approval_id, key, decision="run_again")
    second = decide(client, run_id, approval_id, key, decision="run_again")

    assert (first.status_code, second.status_code) == (200, 200)
    assert second.json == first.json


def test_the_same_key_with_another_answer_is_refused(client, waiting) -> None:
    run_id, (approval_id,) = waiting()
    key = {"Idempotency-Key": "once"}
    decide(client, run_id, approval_id, key, decision="run_again")

    answer = decide(client, run_id, approval_id, key, decision="fail")

    assert (answer.status_code, answer.json["code"]) == (409, "idempotency_conflict")


def test_a_key_means_one_question_only(client, waiting) -> None:
    run_id, ids = waiting(question(), question("send_mail", {}))
    key = {"Idempotency-Key": "once"}

    answers = [decide(client, run_id, approval_id, key, decision="fail") for approval_id in ids]

    assert [answer.status_code for answer in answers] == [200, 200]


def test_the_same_key_and_stop_is_the_same_stop(client, runner) -> None:
    run_id, key = accept(runner), {"Idempotency-Key": "stop-it"}

    first, second = (client.post(f"/v1/runs/{run_id}/cancel", json={}, headers=key) for _ in range(2))

    assert (first.status_code, first.json) == (second.status_code, second.json)
    assert first.json["status"] == "cancelled"


@pytest.mark.parametrize("key", ["", "a" * 256, "ä"])
def test_a_key_is_short_and_printable(client, waiting, key: str) -> None:
    run_id, (approval_id,) = waiting()
    headers = {"Idempotency-Key": key}

    answers = [
        decide(client, run_id, approval_id, headers, decision="fail"),
        client.post(f"/v1/runs/{run_id}/cancel", json={}, headers=headers),
    ]

    assert [(answer.status_code, answer.json["code"]) for answer in answers] == [(400, "bad_request")] * 2
    assert client.get(f"/v1/runs/{run_id}").json["status"] == "waiting"


# --- why ------------------------------------------------------------------------------------------


def test_one_run_says_what_it_waits_for_when_asked(client, waiting, runner) -> None:
    run_id, _ = waiting()
    ended = accept(runner)
    RunOwner(runner.journal, ended).finish()

    why = client.get(f"/v1/runs/{run_id}?why=1").json["why"]

    assert why.startswith("waits for an answer about refund_order(")
    assert "why" not in client.get(f"/v1/runs/{run_id}").json
    assert "why" not in client.get(f"/v1/runs/{ended}?why=1").json
    assert client.get(f"/v1/runs/{run_id}?why=yes").status_code == 400


def test_a_viewer_gets_the_question_and_the_answer(client, waiting, runner) -> None:
    run_id, (approval_id,) = waiting()
    row = client.get(f"/v1/runs/{run_id}").json
    lines = runner.journal.readers.follow_blocking("default", run_id, row["thread_id"], 0)
    received = [next(lines) for _ in range(7)]
    assert [line.type for line in received][-4:] == ["message", "tool", "approval", "status"]

    decide(client, run_id, approval_id, decision="fail")
    decided = orjson.loads(next(lines).data)
    lines.close()

    assert (decided["type"], decided["decision"], decided["by"]) == ("approval", "fail", Principal().id)


# --- approvals that hold for later calls ----------------------------------------------------------


def test_an_approval_holds_for_later_calls_where_that_is_offered_and_is_listed_and_ended(client, waiting) -> None:
    run_id, (approval_id,) = waiting(question_before(scopes=("thread", "tool"), scope_s=600))
    (approval,) = client.get(f"/v1/runs/{run_id}/approvals").json["approvals"]

    decided = decide(client, run_id, approval_id, decision="approve", scope="thread", scope_s=60)
    (listed,) = client.get("/v1/sticky-approvals").json["sticky_approvals"]
    ended = client.delete(f"/v1/sticky-approvals/{listed['sticky_id']}")

    assert (approval["scopes"], approval["scope_s"]) == (["thread", "tool"], 600)
    assert decided.status_code == 200
    assert (listed["scope"], listed["name"], listed["approved_by"], listed["is_valid"]) == (
        "thread",
        "refund_order",
        "local",
        True,
    )
    assert (ended.status_code, ended.json["is_valid"], ended.json["revoked_by"]) == (200, False, "local")
    assert client.delete("/v1/sticky-approvals/stk_none").json["code"] == "sticky_unknown"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"decision": "approve", "scope": "ever"}, 400, "bad_request"),
        ({"decision": "approve", "scope": "tool"}, 422, "scope_refused"),
        ({"decision": "approve", "scope": "thread", "scope_s": 601}, 422, "scope_refused"),
        ({"decision": "approve", "scope": "thread", "scope_s": 0}, 400, "bad_request"),
        ({"decision": "approve", "scope": "thread", "arguments": {"order": 1}}, 422, "scope_refused"),
        ({"decision": "reject", "scope": "thread"}, 400, "bad_request"),
    ],
)
def test_a_scope_that_is_not_offered_decides_nothing(client, waiting, body, status, code) -> None:
    run_id, (approval_id,) = waiting(question_before(scopes=("thread",), scope_s=600))

    answer = decide(client, run_id, approval_id, **body)

    assert (answer.status_code, answer.json["code"]) == (status, code)
    assert client.get(f"/v1/runs/{run_id}").json["status"] == "waiting"


# --- links ----------------------------------------------------------------------------------------


def test_a_link_shows_the_question_and_takes_one_answer(client, waiting, runner) -> None:
    open_question = question_before()
    run_id, (approval_id,) = waiting(open_question)

    response = client.post(f"/v1/runs/{run_id}/approvals/{approval_id}/links", json={"principal": "local"})
    path = f"/v1/approval-links/{response.json['token']}"
    view, again = client.get(path), client.get(path)
    decided, twice = (client.post(path, json={"decision": "approve", "digest": open_question.digest}) for _ in range(2))

    assert response.status_code == 201
    assert response.json["url"] == f"http://localhost/#/approval/{response.json['token']}"
    assert (view.json["approval_id"], view.json["arguments"]) == (approval_id, dict(open_question.arguments))
    assert (view.json, decided.status_code, decided.json["by"]) == (again.json, 200, "local")
    assert (twice.status_code, twice.json["code"]) == (409, "link_over")
    assert answer_of(runner.journal.database, run_id).decision == "approve"


@pytest.mark.parametrize(
    ("for_whom", "token", "status", "code"),
    [("ana", None, 403, "link_not_yours"), ("local", "lnk_none.00", 404, "link_unknown")],
)
def test_a_foreign_or_forged_link_shows_nothing(client, waiting, for_whom, token, status, code) -> None:
    run_id, (approval_id,) = waiting(question_before())
    link = client.post(f"/v1/runs/{run_id}/approvals/{approval_id}/links", json={"principal": for_whom})
    path = f"/v1/approval-links/{token or link.json['token']}"

    answers = client.get(path), client.post(path, json={"decision": "approve"})

    assert {(answer.status_code, answer.json["code"]) for answer in answers} == {(status, code)}
    assert client.get(f"/v1/runs/{run_id}").json["status"] == "waiting"


@pytest.mark.parametrize("body", [{}, {"principal": ""}, {"principal": "a b"}, {"principal": "ana", "expires_in_s": 0}])
def test_a_link_needs_a_person_and_a_time(client, waiting, body) -> None:
    run_id, (approval_id,) = waiting(question_before())

    assert client.post(f"/v1/runs/{run_id}/approvals/{approval_id}/links", json=body).status_code == 400


# --- several at once ------------------------------------------------------------------------------


def test_several_calls_are_decided_about_each_for_itself(client, waiting, runner) -> None:
    first, second, third = (question_before() for _ in range(3))
    run_id, _ = waiting(first, second, third)
    other, (unknown,) = waiting(question())
    named = {"run_id": run_id, "decision": "approve"}
    answers = [
        {**named, "approval_id": first.id, "digest": first.digest},
        {**named, "approval_id": second.id, "digest": "0" * 64},
        {**named, "approval_id": third.id, "digest": third.digest, "decision": "reject", "message": "no"},
        {**named, "approval_id": first.id, "digest": first.digest},
        {**named, "run_id": "run_none", "approval_id": first.id, "digest": first.digest},
        {**named, "run_id": other, "approval_id": unknown, "digest": canonical_digest(REFUND)},
    ]

    answer = client.post("/v1/approvals", json={"answers": answers})

    assert answer.status_code == 200
    assert [entry.get("decision") or entry["code"] for entry in answer.json["answers"]] == [
        "approve",
        "arguments_differ",
        "reject",
        "approval_decided",
        "run_unknown",
        "decision_refused",
    ]
    (left,) = client.get(f"/v1/runs/{run_id}/approvals").json["approvals"]
    assert left["approval_id"] == second.id


@pytest.mark.parametrize("answers", [[], [{}], [{"run_id": "r", "approval_id": "a", "decision": "approve"}], "all"])
def test_each_call_has_to_be_named_with_its_digest(client, answers) -> None:
    assert client.post("/v1/approvals", json={"answers": answers}).status_code == 400
