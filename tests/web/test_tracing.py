"""Each answer and each refusal has a trace id: the caller's, or one that the server made."""

from __future__ import annotations

import logging
from typing import Any

import orjson
import pytest
from flask import Flask
from flask.testing import FlaskClient

from agents.runner import Runner
from bus.journal.tailing import RunReader
from config.identity.principal import Principal
from config.tracing import TRACE_ID, current_trace_id, is_trace_id, traced
from tests.web.conftest import process_of
from web.feeds.viewers import Stream, Viewer
from web.server.refusals import refusal

ID = "4bf92f3577b34da6a3ce929d0e0e4736"
SENT = {"traceparent": f"00-{ID}-00f067aa0ba902b7-01"}


@pytest.mark.parametrize("path", ["/v1/runs", "/health", "/v1/runs/run_none", "/nowhere", "/"])
def test_the_answer_has_the_callers_trace_id(client: FlaskClient, path: str) -> None:
    answer = client.get(path, headers=SENT)

    assert answer.headers.getlist(TRACE_ID) == [ID]


def test_a_request_without_a_trace_id_gets_one_of_its_own(client: FlaskClient) -> None:
    answers = [client.get("/health", headers=sent) for sent in ({}, {}, {"traceparent": f"00-{'0' * 32}-1-01"})]

    ids = [answer.headers[TRACE_ID] for answer in answers]
    assert all(map(is_trace_id, ids))
    assert len(set(ids)) == 3


@pytest.mark.parametrize(
    ("path", "sent", "status"),
    [
        ("/v1/runs/run_none", {}, 404),
        ("/nowhere", {}, 404),
        ("/v1/runs?limit=x", {}, 400),
        ("/v1/runs", {"Host": "evil.example"}, 403),
        ("/v1/runs", {"Origin": "https://evil.example"}, 403),
    ],
)
def test_the_problem_of_a_refusal_has_the_trace_id(
    client: FlaskClient, path: str, sent: dict[str, str], status: int
) -> None:
    answer = client.get(path, headers=SENT | sent)

    assert (answer.status_code, answer.headers[TRACE_ID], answer.get_json()["trace_id"]) == (status, ID, ID)


def test_a_bugs_record_has_the_trace_id_and_the_thread_keeps_none(
    app: Flask, client: FlaskClient, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str | None] = []

    class Seeing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(current_trace_id())

    @app.get("/broken")
    def broken() -> str:
        raise RuntimeError("a bug")

    handler = Seeing()
    logging.getLogger("web.problems").addHandler(handler)
    try:
        answer = client.get("/broken", headers=SENT)
    finally:
        logging.getLogger("web.problems").removeHandler(handler)

    assert (answer.status_code, answer.get_json()["trace_id"]) == (500, ID)
    assert seen == [ID]
    assert current_trace_id() is None


def test_the_refusal_of_what_cannot_be_parsed_has_a_trace_id() -> None:
    head, body = refusal(400).split(b"\r\n\r\n")

    trace_id = orjson.loads(body)["trace_id"]
    assert is_trace_id(trace_id)
    assert f"{TRACE_ID}: {trace_id}".encode() in head


def test_streams_have_the_trace_id(client: FlaskClient) -> None:
    with client.get("/v1/events", headers=SENT) as answer:
        assert (answer.status_code, answer.headers.getlist(TRACE_ID)) == (200, [ID])


def test_a_run_keeps_the_trace_id_of_the_request_that_started_it(client: Any) -> None:
    body = {"agent": "assistant", "input": "Hello"}
    started, other = (client.post("/v1/runs", json=body, headers=sent) for sent in (SENT, {}))

    assert client.get(started.headers["Location"]).json["trace_id"] == ID
    assert client.get(other.headers["Location"]).json["trace_id"] == other.headers[TRACE_ID]


def test_the_answers_of_the_first_orchestrators_calls_echo_what_their_runs_keep(client: Any) -> None:
    body = {"input": "Hello", "correlation_id": "order 4711"}
    with client.post("/v1/agent/run", json=body, headers=SENT) as started:
        run = client.get(started.headers["Location"].removesuffix("/events")).json

    assert (run["trace_id"], run["correlation_id"]) == (ID, "order 4711")


def test_a_run_keeps_the_span_that_its_request_names(client: Any, runner: Runner) -> None:
    body = {"agent": "assistant", "input": "Hello"}
    own, other = (client.post("/v1/runs", json=body, headers=sent).json["run_id"] for sent in (SENT, {}))

    reader = RunReader(runner.journal.database)
    assert [getattr(reader.run(id_), "parent_span", "") for id_ in (own, other)] == ["00f067aa0ba902b7", None]


def test_runs_are_found_by_their_ids_among_those_that_the_caller_sees(client: Any, runner: Runner) -> None:
    body = {"agent": "assistant", "input": "Hello", "metadata": {"correlation_id": "order 4711"}}
    own = client.post("/v1/runs", json=body, headers=SENT).json["run_id"]
    with traced(ID, "order 4711"):
        runner.run("Hello", "assistant", principal=Principal(tenant="other"), detached=True)

    for query in (f"trace_id={ID}", "correlation_id=order%204711", f"trace_id={ID}&correlation_id=order%204711"):
        assert [run["run_id"] for run in client.get(f"/v1/runs?{query}").json["runs"]] == [own]
    for query in (f"trace_id={ID[1:]}", "trace_id=%27%20OR%201=1", f"correlation_id={ID}", "correlation_id=%25"):
        assert client.get(f"/v1/runs?{query}").json["runs"] == []
    assert client.get(f"/v1/runs?trace_id={'a' * 201}").status_code == 400
    results = client.post("/query", json={"query": "order 4711"}).json["results"]
    assert [result["id"] for result in results] == [own]
    assert client.post("/query", json={"query": ID}).json["results"] == []


def test_a_run_without_a_correlation_id_is_found_by_its_trace_id(client: Any) -> None:
    own = client.post("/v1/runs", json={"agent": "assistant", "input": "Hello"}, headers=SENT).json["run_id"]

    assert [run["run_id"] for run in client.get(f"/v1/runs?correlation_id={ID}").json["runs"]] == [own]
    assert [result["id"] for result in client.post("/query", json={"query": ID}).json["results"]] == [own]


def test_records_about_a_viewer_have_its_requests_trace_id(client: FlaskClient) -> None:
    with traced(ID):
        viewer = Viewer(process_of(client.application).hub.viewers, Stream, 0)

    assert viewer.log_fields == {"tenant": "default", "principal": "local", "trace_id": ID}
