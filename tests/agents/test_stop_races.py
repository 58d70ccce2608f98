"""Runs that are stopped at any moment of their lives: no step begins after the stop was seen, and there is one end."""

from __future__ import annotations

import random
import threading
from collections import Counter
from typing import Any

import pytest

from agents.context import RunContext
from agents.models.call import ModelCall
from agents.steps import call_work
from agents.testing import AgentKit, Call, Turn
from agents.tools import ToolContext
from agents.tools.execution import executor
from bus.journal.readers import read_record
from cli.crashlab.invariants import not_recovered

pytestmark = pytest.mark.parity  # a race against the clock

RACES = 100


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Runs in which a tool was called although their stop had been seen; both happen on the loop's thread."""
    seen: set[str] = set()
    late: list[str] = []
    stop, call_tool = RunContext.stop, executor.call_tool

    def watched_stop(context: RunContext) -> None:
        seen.add(context.lease.run_id)
        stop(context)

    async def watched_call(tool: Any, arguments: Any, context: ToolContext, *more: Any) -> Any:
        if context.run_id in seen:
            late.append(context.run_id)
        return await call_tool(tool, arguments, context, *more)

    monkeypatch.setattr(RunContext, "stop", watched_stop)
    monkeypatch.setattr(call_work, "call_tool", watched_call)
    return late


def test_no_tool_is_called_after_the_stop_was_seen(kit: AgentKit, late: list[str]) -> None:
    kit.agent(tools=["tests.agents.sample_tools:add", "tests.agents.sample_tools:whoami"])
    calls = [Call(name="add", arguments={"a": 1, "b": n}) for n in range(4)] + [Call(name="whoami")]
    kit.model.respond = lambda call: (
        Turn(text="That is all there is to say.") if results_in(call) else Turn(text="Wait.", calls=calls)
    )
    kit.play("Warm up.")
    undisturbed_ms = kit.play().end.duration_ms or 0
    draw, outcomes = random.Random(31), Counter[str]()

    for _ in range(RACES):
        handle = kit.run()
        threading.Event().wait(draw.uniform(0, 1.3 * undisturbed_ms / 1000))  # this is about time
        handle.cancel()
        outcomes[handle.result(30).status] += 1
        with kit.runner.journal.database.read() as connection:
            assert not_recovered(read_record(connection, handle.thread_id)) == []

    print(dict(outcomes))
    assert late == []
    assert outcomes["cancelled"] > RACES // 10
    assert set(outcomes) <= {"cancelled", "succeeded"}


def results_in(call: ModelCall) -> int:
    return sum(message["role"] == "tool" for message in call.messages)
