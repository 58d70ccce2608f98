"""The doors of the first orchestrator design."""

from __future__ import annotations

import threading

import orjson
import pytest

from bus.payloads import ErrorPayload, ToolPayload, ToolResultPayload
from tests.web.conftest import RunOwner


def work_off(client, journal, do) -> threading.Thread:
    """Let ``do`` write the run that is about to be queued."""

    def wait_and_do() -> None:
        other = client.application.test_client()
        while not (queued := other.get("/v1/runs?status=queued").json["runs"]):
            pass
        do(RunOwner(journal, queued[0]["run_id"]))

    thread = threading.Thread(target=wait_and_do)
    thread.start()
    return thread


def events_in(text: str) -> list[dict]:
    return [orjson.loads(line[6:]) for line in text.split("\n") if line.startswith("data: ")]


def test_a_run_is_streamed_in_the_dialect(client, journal) -> None:
    def do(owner: RunOwner) -> None:
        owner.say("Let me ", "see.")
        owner.commit(ToolPayload(call_id="c1", name="clock", arguments={"zone": "UTC"}))
        owner.commit(ToolResultPayload(call_id="c1", name="clock", outcome="done", result={"now": "12:00"}))
        owner.finish("It is noon.", usage={"input_tokens": 12, "output_tokens": 5})

    worker = work_off(client, journal, do)
    body = {
        "input": "What time is it?",
        "thread_id": "discord:1",
        "correlation_id": "c-9",
        "config": {"agent_id": "assistant"},
    }
    answer = client.post("/v1/agent/run", json=body)
    events = events_in(answer.text)
    worker.join()

    assert answer.mimetype == "text/event-stream"
    assert answer.headers["X-Run-Id"].startswith("run_")
    assert events == [
        {"type": "thinking", "content": "Let me "},
        {"type": "thinking", "content": "see."},
        {"type": "tool_start", "name": "clock", "args": {"zone": "UTC"}},
        {"type": "tool_result", "name": "clock", "result": '{"now":"12:00"}'},
        {"type": "done", "usage": {"tokens": 17}, "correlation_id": "c-9"},
    ]


def test_a_failure_is_sent_before_done(client, journal) -> None:
    worker = work_off(client, journal, lambda owner: owner.finish("", status="failed", reason="the model is away"))

    events = events_in(client.post("/v1/agent/run", json={"input": "Hi", "thread_id": "t"}).text)
    worker.join()

    assert events == [
        {"type": "error", "code": "failed", "message": "the model is away"},
        {"type": "done", "usage": {"tokens": 0}},
    ]


def test_process_waits_for_the_answer(client, journal) -> None:
    worker = work_off(client, journal, lambda owner: owner.finish("42"))

    answer = client.post("/process", json={"thread_id": "t", "message": "?", "correlation_id": "c"})
    worker.join()

    assert (answer.status_code, answer.json) == (200, {"response": "42", "thread_id": "t", "correlation_id": "c"})


def test_process_that_takes_long_answers_with_the_run(client, monkeypatch) -> None:
    monkeypatch.setattr("web.dialects.seeds.orchestrator.WAIT_S", 0.05)

    answer = client.post("/process", json={"thread_id": "t", "message": "?", "correlation_id": "c"})

    assert answer.status_code == 202
    assert client.get(f"/v1/runs/{answer.json['run_id']}").json["metadata"] == {"correlation_id": "c"}


def test_process_says_why_a_run_failed(client, journal) -> None:
    worker = work_off(client, journal, lambda owner: owner.finish("", status="failed", reason="the model is away"))

    answer = client.post("/process", json={"thread_id": "t", "message": "?", "correlation_id": "c"})
    worker.join()

    assert (answer.status_code, answer.json["code"], answer.json["detail"]) == (502, "run_failed", "the model is away")


def test_a_failure_is_sent_with_the_runs_own_code_and_sentence(client, journal) -> None:
    def fail(owner: RunOwner) -> None:
        owner.commit(ErrorPayload(code="model_key_missing", message="the model needs a key: set OPENAI_API_KEY."))
        owner.finish("", status="failed", reason="model_key_missing")

    worker = work_off(client, journal, fail)
    answer = client.post("/process", json={"thread_id": "t", "message": "?"})
    worker.join()
    worker = work_off(client, journal, fail)
    stream = client.post("/v1/agent/run", json={"input": "?"}).data.decode()
    worker.join()

    detail = "the model needs a key: set OPENAI_API_KEY."
    assert (answer.json["code"], answer.json["detail"]) == ("model_key_missing", detail)
    assert (answer.json["retryable"], "Retry-After" in answer.headers) == (False, False)
    assert '"code":"model_key_missing","message":"the model needs a key: set OPENAI_API_KEY."' in stream


def test_a_failure_that_may_pass_is_retryable(client, journal) -> None:
    def fail(owner: RunOwner) -> None:
        owner.commit(ErrorPayload(code="model_timeout", message="the model did not answer in 60 s."))
        owner.finish("", status="failed", reason="model_timeout")

    worker = work_off(client, journal, fail)
    answer = client.post("/process", json={"thread_id": "t", "message": "?"})
    worker.join()

    assert (answer.status_code, answer.json["code"], answer.json["retryable"]) == (502, "model_timeout", True)
    assert int(answer.headers["Retry-After"]) >= 1


KEY = {"Idempotency-Key": "order-17"}


def test_a_repeated_process_waits_for_the_first_ones_run(client, journal) -> None:
    body = {"thread_id": "t", "message": "?"}
    worker = work_off(client, journal, lambda owner: owner.finish("42"))
    first = client.post("/process", json=body, headers=KEY)
    worker.join()
    second = client.post("/process", json=body, headers=KEY)
    other = client.post("/process", json=body | {"message": "!"}, headers=KEY)

    assert (first.status_code, second.status_code, second.json) == (200, 200, first.json)
    assert second.headers["X-Run-Id"] == first.headers["X-Run-Id"]
    assert (other.status_code, other.json["code"]) == (409, "idempotency_conflict")
    assert len(client.get("/v1/runs").json["runs"]) == 1


def test_a_repeated_run_is_streamed_from_its_beginning(client, journal) -> None:
    worker = work_off(client, journal, lambda owner: owner.finish("42"))
    first = client.post("/v1/agent/run", json={"input": "?"}, headers=KEY)
    streamed = events_in(first.text)
    worker.join()
    second = client.post("/v1/agent/run", json={"input": "?"}, headers=KEY)

    assert second.headers["X-Run-Id"] == first.headers["X-Run-Id"]
    assert events_in(second.text) == streamed
    assert len(client.get("/v1/runs").json["runs"]) == 1


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"input": 5},
        {"input": "x", "config": []},
        {"input": "x", "config": {"agent_id": 5}},
        {"input": "x", "thread_id": "a/b"},
    ],
)
def test_what_does_not_fit_is_refused(client, body: dict) -> None:
    answer = client.post("/v1/agent/run", json=body)

    assert (answer.status_code, answer.json["code"]) == (400, "bad_request")
