"""Runs that are stopped at any moment of their lives: no step begins after the stop was seen, and there is one end."""

from __future__ import annotations

import random
import threading
from collections import Counter
from typing import Any

import pytest

from agents import tool_step
from agents.context import RunContext
from agents.tools import ToolContext, executor
from bus.journal.steps import steps_of
from bus.journal.threads import list_messages
from bus.journal.who import Who
from bus.payloads import EndPayload
from tests.house import House
from tests.model_server import Call, Turn
from tests.reference_runs import results_in

pytestmark = [pytest.mark.journey, pytest.mark.timeout(300)]

RACES = 100
TOOLS = "tools: ['tests.agents.sample_tools:add', 'tests.agents.sample_tools:whoami']"


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Runs in which a tool was called although their stop had been seen; both happen on the loop's thread."""
    seen: set[str] = set()
    late: list[str] = []
    stop, call_tool = RunContext.stop, executor.call_tool

    def watched_stop(context: RunContext) -> None:
        seen.add(context.lease.run_id)
        stop(context)

    async def watched_call(tool: Any, arguments: Any, context: ToolContext, timeout_s: float) -> Any:
        if context.run_id in seen:
            late.append(context.run_id)
        return await call_tool(tool, arguments, context, timeout_s)

    monkeypatch.setattr(RunContext, "stop", watched_stop)
    monkeypatch.setattr(tool_step, "call_tool", watched_call)
    return late


def test_no_tool_is_called_after_the_stop_was_seen(house: House, late: list[str]) -> None:
    house.agent(TOOLS)
    calls = [Call(name="add", arguments={"a": 1, "b": n}) for n in range(4)] + [Call(name="whoami")]
    house.model.respond = lambda body: (
        Turn(text="That is all there is to say.") if results_in(body) else Turn(text="Wait.", calls=calls)
    )  # fmt: skip
    house.run("Warm up.").result(120)
    undisturbed = house.run("Go.").result(60).duration_ms
    draw, outcomes = random.Random(31), Counter[str]()

    for _ in range(RACES):
        handle = house.run("Go.")
        threading.Event().wait(draw.uniform(0, 1.3 * (undisturbed or 0) / 1000))  # this is about time
        handle.cancel()
        events = list(handle.events())
        end = events[-1]
        assert isinstance(end, EndPayload)
        assert [type(event) for event in events].count(EndPayload) == 1
        assert end.status == handle.status()
        assert_history_valid(house, handle.run_id, handle.thread_id)
        outcomes[end.status] += 1

    print(dict(outcomes))
    assert late == []
    assert outcomes["cancelled"] > RACES // 10
    assert set(outcomes) <= {"cancelled", "succeeded"}


def assert_history_valid(house: House, run_id: str, thread_id: str) -> None:
    """Every call has a result, and no step is left open."""
    with house.runner.journal.read() as connection:
        messages = list_messages(connection, Who(), thread_id)
        open_steps = [step["name"] for step in steps_of(connection, run_id) if step["ended_ms"] is None]
    calls = sorted(call["call_id"] for message in messages for call in message.get("tool_calls", ()))
    results = sorted(message["call_id"] for message in messages if message["role"] == "tool")
    assert calls == results
    assert open_steps == []
