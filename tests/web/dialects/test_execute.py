"""`POST /execute`: a run of kind ``tool`` as the first orchestrator design shows it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from flask.testing import FlaskClient

from agents.testing import AgentKit
from agents.tools.tool import tool
from bus.journal.approvals import Decision
from tests.web.conftest import process_of
from tests.web.contract import require_no_difference, watch
from web.app import create_app

calls_made: list[Any] = []


@tool(effect="pure")
def add(a: int, b: int = 1) -> int:
    """Add two numbers.

    Args:
        a: one.
        b: the other.
    """
    calls_made.append((a, b))
    return a + b


@tool(effect="unsafe", confirm=True)
def order(item: str) -> str:
    """Order something.

    Args:
        item: what to order.
    """
    calls_made.append(item)
    return f"ordered {item}"


@tool(effect="pure")
def broken() -> str:
    """Fail."""
    raise ValueError("no shop")


@tool(effect="pure")
def slow() -> str:
    """Take a while."""
    time.sleep(0.5)
    return "late"


@pytest.fixture
def kit() -> Iterator[AgentKit]:
    calls_made.clear()
    settings = {"default_agent": "tester"}
    with AgentKit(tools=[add, order, broken, slow], settings=settings) as made_kit:
        yield made_kit


@pytest.fixture
def client(kit: AgentKit) -> Iterator[FlaskClient]:
    app = create_app(kit.settings, kit.runner)
    watch(app)
    yield app.test_client()
    process_of(app).close()
    require_no_difference(app)


def execute(client: Any, name: str, arguments: dict[str, Any] | None = None, **more: Any) -> Any:
    headers = more.pop("headers", {})
    return client.post("/execute", json={"tool_name": name, "arguments": arguments or {}, **more}, headers=headers)


def test_the_answer_has_what_the_design_names(client: Any) -> None:
    answer = execute(client, "add", {"a": 2, "b": 40}, correlation_id="c-9")

    body = answer.json
    assert answer.status_code == 200
    assert (body["status"], body["output"], body["correlation_id"]) == ("succeeded", 42, "c-9")
    assert isinstance(body["execution_time_ms"], float)
    assert answer.headers["X-Run-Id"] == body["run_id"]
    run = client.get(answer.headers["Location"]).json
    assert (run["kind"], run["output"], run["metadata"]) == ("tool", 42, {"correlation_id": "c-9"})


@pytest.mark.parametrize(
    ("name", "arguments", "status", "code"),
    [
        ("add", {"a": "two"}, 422, "arguments_invalid"),
        ("add", {"a": 1, "c": 2}, 422, "arguments_invalid"),
        ("ad", {"a": 1}, 404, "tool_not_offered"),
    ],
)
def test_a_call_that_is_not_made_is_refused(
    client: Any, name: str, arguments: dict[str, Any], status: int, code: str
) -> None:
    answer = execute(client, name, arguments)

    assert (answer.status_code, answer.json["code"], calls_made) == (status, code, [])
    assert client.get(f"/v1/runs/{answer.json['run_id']}").json["error"] == code


def test_a_call_that_failed_says_so_in_its_status(client: Any) -> None:
    answer = execute(client, "broken")

    body = answer.json
    assert (answer.status_code, body["status"], body["code"]) == (200, "failed", "tool_failed")
    assert "no shop" in body["error"]


def test_a_repeated_request_gets_the_first_ones_outcome(client: Any) -> None:
    key = {"Idempotency-Key": "one"}
    first = execute(client, "add", {"a": 1}, headers=key)

    again = execute(client, "add", {"a": 1}, headers=key)

    assert again.json == first.json
    assert calls_made == [(1, 1)]
    assert execute(client, "add", {"a": 2}, headers=key).json["code"] == "idempotency_conflict"


def test_a_call_that_takes_longer_continues(client: Any, kit: AgentKit) -> None:
    answer = execute(client, "slow", timeout=0.05)

    assert (answer.status_code, "output" in answer.json) == (202, False)
    assert kit.runner.handle(answer.json["run_id"]).result(30).output == "late"


@pytest.mark.parity
def test_a_call_that_needs_approval_says_which_and_is_made_once_it_has_it(client: Any, kit: AgentKit) -> None:
    key = {"Idempotency-Key": "tea"}
    answer = execute(client, "order", {"item": "tea"}, headers=key)

    body = answer.json
    assert (answer.status_code, body["status"], body["code"], calls_made) == (202, "waiting", "approval_required", [])
    again = execute(client, "order", {"item": "tea"}, headers=key)
    assert (again.status_code, again.json["approval_id"]) == (202, body["approval_id"])
    decided = client.post(f"/v1/runs/{body['run_id']}/approvals/{body['approval_id']}", json={"decision": "approve"})
    assert decided.status_code == 200
    kit.runner.handle(body["run_id"]).result(30)
    final = execute(client, "order", {"item": "tea"}, headers=key)
    assert (final.status_code, final.json["output"], calls_made) == (200, "ordered tea", ["tea"])


def test_a_rejected_call_is_refused(client: Any, kit: AgentKit) -> None:
    key = {"Idempotency-Key": "tea"}
    body = execute(client, "order", {"item": "tea"}, headers=key).json
    kit.runner.handle(body["run_id"]).decide(body["approval_id"], Decision(decision="reject"), by="ann")
    kit.runner.handle(body["run_id"]).result(30)

    answer = execute(client, "order", {"item": "tea"}, headers=key)

    assert (answer.status_code, answer.json["code"], calls_made) == (403, "call_rejected", [])


def test_a_stopped_call_is_cancelled(client: Any) -> None:
    key = {"Idempotency-Key": "tea"}
    body = execute(client, "order", {"item": "tea"}, headers=key).json
    client.post(f"/v1/runs/{body['run_id']}/cancel")

    answer = execute(client, "order", {"item": "tea"}, headers=key)

    assert (answer.status_code, answer.json["status"], answer.json["code"]) == (200, "cancelled", "stopped")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"tool_name": ""},
        {"tool_name": "x" * 129},
        {"tool_name": "a\nb"},
        {"tool_name": "add", "arguments": []},
        {"tool_name": "add", "arguments": None},
        {"tool_name": "add", "arguments": {}, "timeout": -1},
        {"tool_name": "add", "arguments": {}, "timeout": 1e9},
        {"tool_name": "add", "arguments": {}, "timeout": "5"},
        {"tool_name": "add", "arguments": {}, "privileged": True},
        {"tool_name": "add", "arguments": {}, "principal": "root"},
        {"tool_name": "add", "arguments": {"a": "\0"}},
        {"tool_name": 1},
    ],
)
def test_a_body_of_another_form_is_refused(client: Any, kit: AgentKit, body: dict[str, Any]) -> None:
    answer = client.post("/execute", json=body)

    assert (answer.status_code, answer.json["code"]) == (400, "bad_request")
    assert kit.runner.journal.readers.runs.newest(kit.runner.principal) == []


def test_an_unknown_agent_is_refused_before_a_run_is_made(client: Any, kit: AgentKit) -> None:
    answer = execute(client, "add", {"a": 1}, config={"agent_id": "none"})

    assert (answer.status_code, answer.json["code"]) == (404, "agent_unknown")
    assert kit.runner.journal.readers.runs.newest(kit.runner.principal) == []


def test_too_large_arguments_are_refused(client: Any) -> None:
    answer = execute(client, "add", {"a": "x" * (1024 * 1024 + 1)})

    assert (answer.status_code, answer.json["code"]) == (413, "input_too_large")
