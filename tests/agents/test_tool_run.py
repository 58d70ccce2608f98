"""Runs of kind ``tool``: one call without a model, executed, resumed, approved and stopped like an agent's call."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from agents.handle import RunHandle
from agents.testing import AgentKit, Call, Turn
from agents.tools.call_context import current_call
from agents.tools.tool import tool
from bus.journal.approvals import Decision
from bus.journal.clients import IdempotencyKey
from bus.journal.errors import IDEMPOTENCY_CONFLICT
from bus.journal.readers import read_record
from bus.payloads import EndPayload, ErrorPayload, StatusPayload, ToolPayload, ToolResultPayload
from cli.crashlab.invariants import not_recovered
from config.definitions.errors import ToolUnknown
from config.errors import ToolFailed
from config.identity.principal import Principal, Role
from config.ids import canonical_digest
from tests.raising import raises

calls_made: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_made() -> None:
    calls_made.clear()


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
    raise ToolFailed("the shop is closed")


@pytest.fixture
def kit() -> Any:
    with AgentKit(tools=[add, order, broken]) as made_kit:
        yield made_kit


def ended(kit: AgentKit, name: str, arguments: dict[str, Any], **options: Any) -> tuple[RunHandle, EndPayload]:
    handle = kit.runner.call_tool(name, arguments, agent_id="tester", **options)
    return handle, handle.result(30)


def breaches(kit: AgentKit, handle: RunHandle) -> list[str]:
    with kit.runner.journal.database.read() as connection:
        return not_recovered(read_record(connection, handle.thread_id))


def test_the_output_of_the_run_is_the_result_of_its_call(kit: AgentKit) -> None:
    handle, end = ended(kit, "add", {"a": 2, "b": 40})

    assert (end.status, end.output, end.steps, calls_made) == ("succeeded", 42, 1, [(2, 40)])
    events = list(handle.events())
    assert [event.event_type for event in events] == ["status", "status", "tool", "tool_result", "end"]
    called, result = events[2], events[3]
    assert isinstance(called, ToolPayload)
    assert isinstance(result, ToolResultPayload)
    assert (called.name, called.arguments, called.effect) == ("add", {"a": 2, "b": 40}, "pure")
    assert (result.call_id, result.outcome, result.result) == (called.call_id, "done", 42)
    assert (called.digest, called.attempt, result.attempt) == (canonical_digest({"a": 2, "b": 40}), 1, 1)
    run = kit.runner.journal.readers.runs.get(kit.runner.principal, handle.run_id)
    assert (run["kind"], run["title"], run["model"], run["output"]) == ("tool", "add(a=2, b=40)", "", 42)
    assert kit.model.requests == []
    assert breaches(kit, handle) == []


def test_its_start_and_its_end_are_the_only_commits(kit: AgentKit) -> None:
    handle, _ = ended(kit, "add", {"a": 1})

    row = kit.runner.journal.readers.runs.row(kit.runner.principal, handle.run_id)
    assert row.commits == 1  # besides the claim, which has the call's start


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("add", {"a": "two"}, "arguments_invalid"),
        ("add", {}, "arguments_invalid"),
        ("ad", {"a": 1}, "tool_not_offered"),
        ("broken", {}, "tool_failed"),
    ],
)
def test_a_call_that_fails_is_the_runs_error(kit: AgentKit, name: str, arguments: dict[str, Any], code: str) -> None:
    handle, end = ended(kit, name, arguments)

    assert (end.status, end.reason, calls_made) == ("failed", code, [])
    (error,) = [event for event in handle.events() if isinstance(event, ErrorPayload)]
    (result,) = [event for event in handle.events() if isinstance(event, ToolResultPayload)]
    assert (error.code, result.code, result.outcome) == (code, code, "failed")
    assert breaches(kit, handle) == []


def test_a_tool_that_cannot_be_loaded_fails_the_run(kit: AgentKit) -> None:
    kit.agent(tools=["no.such:tool"])

    handle, end = ended(kit, "add", {"a": 1})

    assert (end.status, end.reason) == ("failed", ToolUnknown.code)
    assert breaches(kit, handle) == []


def test_a_call_waits_for_approval_and_is_made_once(kit: AgentKit) -> None:
    handle = kit.runner.call_tool("order", {"item": "tea"}, agent_id="tester")
    next(event for event in handle.events() if isinstance(event, StatusPayload) and event.status == "waiting")
    (approval,) = handle.approvals()

    question = (approval["kind"], approval["name"], approval["arguments"])
    assert (question, calls_made) == (("call", "order", {"item": "tea"}), [])
    handle.decide(approval["approval_id"], Decision(decision="approve"), by="ann")
    end = handle.result(30)

    assert (end.status, end.output, calls_made) == ("succeeded", "ordered tea", ["tea"])
    assert breaches(kit, handle) == []


def test_a_rejected_call_fails_the_run_and_is_not_made(kit: AgentKit) -> None:
    handle = kit.runner.call_tool("order", {"item": "tea"}, agent_id="tester")
    next(event for event in handle.events() if isinstance(event, StatusPayload) and event.status == "waiting")

    handle.decide(handle.approvals()[0]["approval_id"], Decision(decision="reject", message="no"), by="ann")
    end = handle.result(30)

    assert (end.status, end.reason, calls_made) == ("failed", "call_rejected", [])
    assert breaches(kit, handle) == []


def test_a_stop_ends_the_call(kit: AgentKit) -> None:
    begun, leave = threading.Event(), threading.Event()

    @tool(effect="pure")
    def slow() -> str:
        """Wait."""
        begun.set()
        leave.wait(30)
        return "late"

    kit.agent(tools=[slow])
    handle = kit.runner.call_tool("slow", {}, agent_id="tester")
    assert begun.wait(10)
    handle.cancel()
    end = handle.result(30)
    leave.set()

    assert end.status == "cancelled"
    (result,) = [event for event in handle.events() if isinstance(event, ToolResultPayload)]
    assert result.outcome == "cancelled"
    assert breaches(kit, handle) == []


def test_a_stop_before_its_start_leaves_a_valid_history(kit: AgentKit) -> None:
    handle = kit.runner.call_tool("add", {"a": 1}, agent_id="tester", detached=True)
    handle.cancel()

    assert handle.result(30).status == "cancelled"
    assert breaches(kit, handle) == []
    kit.model.script(Turn(text="Hello."))
    kit.play("And now?", thread_id=handle.thread_id)
    assert [message["role"] for message in kit.model.requests[-1].messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "user",
    ]


def test_an_agent_continues_the_conversation_of_a_call(kit: AgentKit) -> None:
    handle, _ = ended(kit, "add", {"a": 2, "b": 3})
    kit.model.script(Turn(text="It was 5."))

    kit.play("What was it?", thread_id=handle.thread_id)

    _, user, call, result, _ = kit.model.requests[-1].messages
    assert (user["content"], result["content"]) == ("add(a=2, b=3)", "5")
    assert call["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"a":2,"b":3}'}


def test_a_repeated_request_has_the_first_ones_outcome(kit: AgentKit) -> None:
    body = {"a": 20, "b": 22}
    key = IdempotencyKey(key="k", method="POST", path="/execute", body_digest=canonical_digest(body))
    first, _ = ended(kit, "add", body, idempotency=key)

    again, end = ended(kit, "add", body, idempotency=key)

    assert (again.run_id, again.is_new, end.output, calls_made) == (first.run_id, False, 42, [(20, 22)])
    other = IdempotencyKey(key="k", method="POST", path="/execute", body_digest="other")
    with raises(IDEMPOTENCY_CONFLICT):
        kit.runner.call_tool("add", body, agent_id="tester", idempotency=other)


def test_the_sandbox_and_the_principal_are_those_of_the_agents_runs(kit: AgentKit) -> None:
    seen: list[tuple[str, str]] = []

    @tool(effect="pure")
    def look() -> str:
        """Look."""
        seen.append((current_call().principal, str(current_call().sandbox)))
        return "seen"

    kit.agent(tools=[look])
    ann = Principal(id="ann", roles=frozenset({Role.OPERATOR}))
    kit.model.script(Turn(calls=(Call(name="look"),)), Turn(text="Done."))
    kit.play(principal=ann)
    ended(kit, "look", {}, principal=ann)

    assert seen[0] == seen[1]
    assert seen[0][0] == "ann"
