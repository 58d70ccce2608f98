"""The commit that ends a run notifies each call that waits for it, also where no observer streams the run's events."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from agents.runner import Runner
from bus.journal import Journal
from tests.web.conftest import RunOwner, accept, eventually

Door = Callable[[FlaskClient, Runner], Any]
"""Starts or finds a run, waits for its end in one request, and returns its output."""


@pytest.fixture(autouse=True)
def never_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GAP_S", "IDLE_S", "POLL_S"):
        monkeypatch.setattr(f"bus.journal.live.reader.{name}", 3600.0)


def answered(response: TestResponse) -> Any:
    return response.json


def start_and_wait(client: FlaskClient, runner: Runner) -> Any:
    body = {"agent": "assistant", "input": "Hi", "detached": False, "wait_s": 20}
    return answered(client.post("/v1/runs", json=body))["output"]


def start_and_prefer_to_wait(client: FlaskClient, runner: Runner) -> Any:
    body = {"agent": "assistant", "input": "Hi"}
    return answered(client.post("/v1/runs", json=body, headers={"Prefer": "wait=20"}))["output"]


def wait_for_a_run(client: FlaskClient, runner: Runner) -> Any:
    return answered(client.get(f"/v1/runs/{accept(runner)}", headers={"Prefer": "wait=20"}))["output"]


def process_a_message(client: FlaskClient, runner: Runner) -> Any:
    return answered(client.post("/process", json={"message": "Hi"}))["response"]


def wait_for_events(client: FlaskClient, runner: Runner) -> Any:
    path = f"/v1/runs/{accept(runner)}/events?wait_s=20&after=1"
    return answered(client.get(path, headers={"Accept": "application/json"}))["events"][-1]["output"]


def wait_for_a_result(client: FlaskClient, runner: Runner) -> Any:
    return runner.run("Hi", "assistant").result(20).output


@pytest.mark.parametrize(
    "door",
    [start_and_wait, start_and_prefer_to_wait, wait_for_a_run, process_a_message, wait_for_events, wait_for_a_result],
)
def test_a_caller_gets_the_end_by_its_commit(client: FlaskClient, runner: Runner, journal: Journal, door: Door) -> None:
    followed: dict[str, Any] = journal.live.hot_log._listeners  # type: ignore[attr-defined]  # of the hot log in memory
    with ThreadPoolExecutor(1) as threads:
        output = threads.submit(door, client, runner)
        eventually(lambda: bool(followed))
        (run_id,) = followed
        RunOwner(journal, run_id, is_streamed=False).finish("42")

        assert output.result(20) == "42"
