"""A task works in the trace of its own message, and leaves none to the next one on its thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import orjson
import pytest
from celery.worker.request import Request
from kombu.transport.virtual import Channel, Message
from kombu.utils.json import loads

from bus.broker.consumer import sanitize
from bus.broker.envelope import item_of, rewrite_item
from bus.celery_app import app
from bus.messages.run_agent import RunAgentMessage
from config.tracing import Trace, current_trace
from handlers import run_agent

FIRST, SECOND = "1" * 32, "2" * 32


class _BareChannel(Channel):  # type: ignore[misc]  # kombu has no types
    """What a message needs of its channel to read its body."""

    def __init__(self) -> None:
        pass


def message(run_id: str, trace_id: str | None, correlation_id: str | None = None) -> RunAgentMessage:
    wake_up = RunAgentMessage(run_id=run_id, agent_id="assistant", thread_id="thr_1")
    return replace(wake_up, trace_id=trace_id, correlation_id=correlation_id)


def execute(item: bytes, change: Callable[[dict[str, Any]], object] = lambda headers: None) -> None:
    """Let Celery execute a message as it lies in the queue, on this thread."""
    envelope = loads(item)
    change(envelope["headers"])
    received = Message(loads(rewrite_item(orjson.dumps(envelope), "runs").decode()), channel=_BareChannel())
    sanitize(received)
    Request(received, app=app, task=run_agent.run_agent, on_ack=lambda *_, **__: None).execute()


def item(wake_up: RunAgentMessage) -> bytes:
    return item_of(wake_up, f"task of {wake_up.run_id}", "runs", "origin")


@pytest.fixture
def worked_in(monkeypatch: pytest.MonkeyPatch) -> dict[str, Trace | None]:
    """The trace in which each run was worked on."""
    traces: dict[str, Trace | None] = {}
    monkeypatch.setattr(run_agent, "work_on", lambda wake_up: traces.update({wake_up.run_id: current_trace()}))
    return traces


def test_each_of_two_tasks_on_one_thread_works_in_its_own_trace(worked_in: dict[str, Trace | None]):
    for wake_up in (message("run_1", FIRST, "order 4711"), message("run_2", SECOND), message("run_3", None)):
        execute(item(wake_up))
        assert current_trace() is None

    assert worked_in == {
        "run_1": Trace(FIRST, "order 4711", "run_1"),
        "run_2": Trace(SECOND, None, "run_2"),
        "run_3": Trace(None, None, "run_3"),
    }


def test_tasks_at_once_do_not_see_each_others_trace(monkeypatch: pytest.MonkeyPatch):
    both, traces = threading.Barrier(2, timeout=20), dict[str, list[Trace | None]]()

    def work(wake_up: RunAgentMessage) -> None:
        seen = [current_trace()]
        both.wait()
        traces[wake_up.run_id] = [*seen, current_trace()]
        both.wait()

    monkeypatch.setattr(run_agent, "work_on", work)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(execute, [item(message("run_1", FIRST)), item(message("run_2", SECOND))]))
        assert list(threads.map(lambda _: current_trace(), range(4))) == [None] * 4

    assert traces == {"run_1": [Trace(FIRST, None, "run_1")] * 2, "run_2": [Trace(SECOND, None, "run_2")] * 2}


def test_a_task_that_fails_leaves_no_trace(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    def fail(wake_up: RunAgentMessage) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(run_agent, "work_on", fail)

    execute(item(message("run_1", FIRST)))

    assert "a bug" in caplog.text
    assert current_trace() is None


FORGED: Mapping[str, Mapping[str, object]] = {
    "no header": {"traceparent": None, "x-correlation-id": None},
    "malformed": {"traceparent": "00-zz-zz-01", "x-correlation-id": 5},
    "zeros": {"traceparent": f"00-{'0' * 32}-{'1' * 16}-01", "x-correlation-id": ""},
    "huge": {"traceparent": "0" * 20_000, "x-correlation-id": "x" * 20_000},
    "in Celery's place": {
        "traceparent": None,
        "x-correlation-id": None,
        "headers": {"traceparent": f"00-{FIRST}-1-01"},
    },
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_header_is_ignored(name: str, worked_in: dict[str, Trace | None]):
    execute(item(message("run_1", FIRST, "order 4711")), lambda headers: headers.update(FORGED[name]))

    assert worked_in == {"run_1": Trace(None, None, "run_1")}
