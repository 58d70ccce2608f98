"""Traces reach a collector of OTLP, are sent again while it is down, and are dead letters where it refuses them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from pydantic import SecretStr

from bus.journal.tailing import Member, ObserverCursors, RunReader, dead_letters, feed_again, observer_states
from bus.payloads import EndPayload
from config.errors import CallboardError
from config.settings import Settings
from config.tracing import span_id_of
from observers.tailing import tailer as tailing
from observers.tailing.host import ObserverHost
from observers.tailing.tailed import tailed_observer
from observers.tailing.tailer import Tailer
from observers.traces import otlp
from observers.traces.traces import TracesObserver
from tests.observers.traces.conftest import BEGAN_MS, TracedLog
from tests.otlp_receiver import Answer, OtlpReceiver, facts_of, takes_all, without_parent
from tests.ports import free_port
from tests.tailed_log import end, status

pytestmark = pytest.mark.parity

KEY = "sk-of-the-back-end-123456"


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as server:
        yield server


@pytest.fixture
def chosen(receiver: OtlpReceiver, usual_settings: Settings) -> Settings:
    headers = SecretStr(f"x-key={KEY},x-team=a%2Cb")
    return usual_settings.model_copy(update={"traces_url": receiver.url, "traces_headers": headers})


@pytest.fixture
def member(log: TracedLog, chosen: Settings, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Tailer]:
    """Make a thread's work for the observer, which a test steps through."""
    monkeypatch.setattr(tailing, "CLAIM_S", 0.0)

    def new_member(name: str = "own_1", **changes: Any) -> Tailer:
        settings = chosen.model_copy(update=changes)
        tailed = tailed_observer("traces", settings, "beginning")
        parts = tailed.name, tailed.class_path, tailed.delivery, tailed.selection.as_json()
        ObserverCursors(log.database).register(*parts, tailed.start)
        return Tailer(tailed, settings, log.database, Member(id=name, host="here", pid=1, version="1"))

    return new_member


def ended_runs(log: TracedLog, count: int) -> list[str]:
    run_ids = [log.traced_run() for _ in range(count)]
    for run_id in run_ids:
        log.step(run_id, 1)
        log.write(run_id, status(1), end(2))
    return run_ids


def drain(tailer: Tailer) -> None:
    for _ in range(100):
        if not tailer.step():
            return
    raise AssertionError("it never came to an end")


def letters(log: TracedLog) -> list[dict[str, Any]]:
    with log.database.read() as connection:
        return dead_letters(connection, "traces")


def test_runs_that_have_ended_reach_the_collector_in_one_request(
    log: TracedLog, receiver: OtlpReceiver, member: Callable[..., Tailer], chosen: Settings
):
    run_ids = ended_runs(log, 20)
    ahead = log.traced_run()
    log.write(ahead, status(1))

    drain(member())

    assert {facts_of(root.attributes)["callboard.run.id"] for root in receiver.roots()} == set(run_ids)
    assert (len(receiver.spans), len(receiver.headers)) == (40, 1)
    assert without_parent(receiver.all()) == []
    (header,) = receiver.headers
    assert (header["path"], header["x-key"], header["x-team"]) == ("/v1/traces", KEY, "a,b")
    assert header["content-type"] == "application/x-protobuf"
    (resource,) = receiver.resources
    assert (resource["service.name"], resource["deployment.environment.name"]) == ("callboard", chosen.deployment)


def test_a_span_has_its_times_kind_and_state(log: TracedLog, receiver: OtlpReceiver, member: Callable[..., Tailer]):
    run_id = log.traced_run(parent_span="00f067aa0ba902b7")
    step_id = log.step(run_id, 1, kind="model", name="openai/gpt-5", status="failed", cost_usd=0.5)
    log.write(run_id, status(1), end(2))

    drain(member())

    step = next(span for span in receiver.all() if span.span_id.hex() == span_id_of(step_id))
    (root,) = receiver.roots()
    assert (step.kind, root.kind) == (Span.SPAN_KIND_CLIENT, Span.SPAN_KIND_INTERNAL)
    assert (step.parent_span_id, root.parent_span_id.hex()) == (root.span_id, "00f067aa0ba902b7")
    assert step.end_time_unix_nano - step.start_time_unix_nano == 1_000_000_000
    assert step.start_time_unix_nano == (BEGAN_MS + 1000) * 1_000_000
    assert (step.status.code, step.status.message) == (Status.STATUS_CODE_ERROR, "failed")
    facts = facts_of(step.attributes)
    assert (facts["gen_ai.request.model"], facts["gen_ai.provider.name"]) == ("gpt-5", "openai")
    assert facts["callboard.cost_usd"] == 0.5


def test_a_second_delivery_sends_the_same_spans(log: TracedLog, receiver: OtlpReceiver, member: Callable[..., Tailer]):
    ended_runs(log, 5)
    drain(member())
    first = dict(receiver.spans)

    ObserverCursors(log.database).reset("traces", "beginning")
    drain(member())

    assert receiver.spans == first
    assert set(receiver.times.values()) == {2}


@pytest.mark.parametrize("answer", [(503, b"later"), (429, b""), (500, b"oh"), None])
def test_while_the_collector_takes_nothing_the_runs_wait(
    log: TracedLog, receiver: OtlpReceiver, member: Callable[..., Tailer], answer: Answer | None
):
    run_ids = ended_runs(log, 3)
    receiver.respond = lambda _: answer or (200, b"")
    tailer = member(**({"traces_url": f"http://127.0.0.1:{free_port()}"} if answer is None else {}))

    drain(tailer)

    waiting = letters(log)
    assert {letter["run_id"] for letter in waiting} == set(run_ids)
    assert {letter["state"] for letter in waiting} == {"retrying"}
    assert receiver.spans == {}

    receiver.respond = takes_all
    with log.database.write() as connection:
        feed_again(connection, "traces", None)
    drain(member())
    assert len(receiver.roots()) == 3
    assert letters(log) == []


def test_what_the_collector_refuses_is_a_dead_letter_with_its_sentence_and_the_others_arrive(
    log: TracedLog, receiver: OtlpReceiver, member: Callable[..., Tailer]
):
    refused, *others = ended_runs(log, 5)
    bad_span = bytes.fromhex(span_id_of(refused))
    sentence = f"span rejected,\nsend no {KEY}"

    def respond(request: Any) -> Answer:
        ids = {span.span_id for part in request.resource_spans for scope in part.scope_spans for span in scope.spans}
        return (400, Status(message=sentence).SerializeToString()) if bad_span in ids else takes_all(request)

    receiver.respond = respond
    drain(member())

    (letter,) = letters(log)
    assert (letter["run_id"], letter["state"], letter["attempts"]) == (refused, "dead", 1)
    assert "400: span rejected," in letter["error"]
    assert KEY not in letter["error"]
    assert len(receiver.roots()) == len(others)


def test_a_partial_success_is_logged_and_not_sent_again(
    log: TracedLog, receiver: OtlpReceiver, member: Callable[..., Tailer], caplog: pytest.LogCaptureFixture
):
    ended_runs(log, 1)
    partial = ExportTracePartialSuccess(rejected_spans=1, error_message="too\nlong")
    receiver.respond = lambda _: (200, ExportTraceServiceResponse(partial_success=partial).SerializeToString())

    with caplog.at_level(logging.WARNING):
        drain(member())

    assert len(receiver.headers) == 1
    assert "rejected 1 spans: too\\nlong" in caplog.text
    assert letters(log) == []


def test_many_spans_are_several_requests(
    log: TracedLog, receiver: OtlpReceiver, member: Callable[..., Tailer], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(otlp, "MAX_BYTES", 20_000)
    ended_runs(log, 100)

    drain(member())

    assert len(receiver.roots()) == 100
    assert len(receiver.sizes) > 3
    assert max(receiver.sizes) < 22_000


def test_a_run_that_was_removed_meanwhile_costs_nothing(log: TracedLog, receiver: OtlpReceiver, chosen: Settings):
    observer = TracesObserver.from_settings(chosen)
    observer.runs = RunReader(log.database)
    facts: Any = type("Facts", (), {"run_id": "run_that_never_was"})
    observer.on_end(facts, EndPayload(status="succeeded"), facts)

    observer.flush()
    observer.close()

    assert receiver.headers == []


def test_without_an_address_it_does_not_start_and_no_log_is_kept_for_it(log: TracedLog, usual_settings: Settings):
    host = ObserverHost(usual_settings, log.database)

    with pytest.raises(CallboardError, match="CALLBOARD_TRACES_URL is not set"):
        host.start(tailed_observer("traces", usual_settings))

    with log.database.read() as connection:
        assert observer_states(connection) == []


def test_the_metadata_service_of_a_cloud_is_not_asked(log: TracedLog, member: Callable[..., Tailer]):
    ended_runs(log, 1)

    drain(member(traces_url="http://169.254.169.254/v1/traces"))

    (letter,) = letters(log)
    assert "metadata service" in letter["error"]
