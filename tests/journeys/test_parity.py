"""Every scenario on both routes: the same handler, so the same log, number by number."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from agents.handle import RunHandle
from bus.journal.approvals import Decision
from bus.payloads import ApprovalPayload, Payload, ResponsePayload, ToolPayload, encode
from tests.app_harness import AppHarness
from tests.fleet import Worker
from tests.model_server import Call, Turn

pytestmark = pytest.mark.journey

_ID = re.compile(r"\b(run|thr|msg|step|call|key|apr)_[0-9a-z]{26}\b")
_VOLATILE = ("at", "duration_ms", "work_ms", "retry_in_ms", "expires_at", "trace_id", "correlation_id", "control_id")
_HOST = re.compile(r"127\.0\.0\.1:\d+")


@pytest.fixture(scope="module")
def provider() -> str:
    """Both routes, through LiteLLM."""
    return "openai"


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What happens in a run."""

    turns: Sequence[Turn]
    agent: str = ""
    meanwhile: Callable[[Payload, RunHandle], None] | None = None
    """Called with each event, in the process that watches."""
    before: Sequence[str] = ()
    """Sentences said in the thread before, each answered by a turn."""


def _stop_at_two(event: Payload, handle: RunHandle) -> None:
    if isinstance(event, ResponsePayload) and event.content == "two ":
        handle.cancel(by="ann")


def _stop_in_tool(event: Payload, handle: RunHandle) -> None:
    if isinstance(event, ToolPayload) and event.arguments is not None:
        handle.cancel(by="ann")


def _reject(event: Payload, handle: RunHandle) -> None:
    if isinstance(event, ApprovalPayload) and event.decision is None:
        handle.decide(event.approval_id, Decision(decision="reject", message="not today"), by="ann")


SAMPLE = "tests.agents.sample_tools"
SCHEMA = "output_schema: {type: object, properties: {city: {type: string}}, required: [city]}"
SCENARIOS: dict[str, Scenario] = {
    "a chat": Scenario(turns=[Turn(text="Hello there, friend.")]),
    "thinking": Scenario(turns=[Turn(reasoning="Let me think about it.", text="Done thinking.")]),
    "a tool": Scenario(
        agent=f"tools: ['{SAMPLE}:add']",
        turns=[Turn(calls=[Call(name="add", arguments={"a": 1, "b": 2}, piece=1)]), Turn(text="Three.")],
    ),
    "two tools one after the other": Scenario(
        agent=f"tools: ['{SAMPLE}:add']",
        turns=[
            Turn(text="First.", calls=[Call(name="add", arguments={"a": 1, "b": 2})]),
            Turn(calls=[Call(name="add", arguments={"a": 3, "b": 4})]),
            Turn(text="Seven."),
        ],
    ),
    "parallel tools": Scenario(
        agent=f"tools: ['{SAMPLE}:add', '{SAMPLE}:hang']",
        turns=[Turn(calls=[Call(name="add", arguments={"a": 1, "b": 2}), Call(name="hang")]), Turn(text="One of two.")],
    ),
    "a tool that fails": Scenario(
        agent=f"tools: ['{SAMPLE}:explode']", turns=[Turn(calls=[Call(name="explode")]), Turn(text="It blew up.")]
    ),
    "a call that a person rejects": Scenario(
        agent=f"tools: ['{SAMPLE}:launch']",
        turns=[Turn(calls=[Call(name="launch")]), Turn(text="Not done.")],
        meanwhile=_reject,
    ),
    "a broken stream": Scenario(turns=[Turn(text=["lost ", "words"], disconnect_after=2), Turn(text="Kept words.")]),
    "a failing model": Scenario(turns=[Turn(status=500)] * 3),
    "a refusing model": Scenario(turns=[Turn(status=400)]),
    "an error in the stream": Scenario(
        turns=[
            Turn(text=["some ", "words"], error_after=2, error={"message": "overloaded", "code": 503}),
            Turn(text="Fine."),
        ]
    ),
    "structured output": Scenario(agent=SCHEMA, turns=[Turn(text='{"city": "Lima"}')]),
    "structured output repaired": Scenario(agent=SCHEMA, turns=[Turn(text="Lima!"), Turn(text='{"city": "Lima"}')]),
    "structured output beyond repair": Scenario(agent=SCHEMA, turns=[Turn(text="Lima!"), Turn(text="Lima?")]),
    "too many rounds": Scenario(
        agent=f"tools: ['{SAMPLE}:add']\nmax_iterations: 1",
        turns=[Turn(calls=[Call(name="add", arguments={"a": 1, "b": 2})]), Turn(text="Enough.")],
    ),
    "stop while streaming": Scenario(
        turns=[Turn(text=["one ", "two ", "three"], stall_after=3)], meanwhile=_stop_at_two
    ),
    "stop inside a tool": Scenario(
        agent=f"tools: ['{SAMPLE}:wait_long']", turns=[Turn(calls=[Call(name="wait_long")])], meanwhile=_stop_in_tool
    ),
    "a second turn": Scenario(before=["My name is Ann."], turns=[Turn(text="Hello Ann."), Turn(text="You are Ann.")]),
    "an unknown tool": Scenario(agent="tools: [no_such_tool]", turns=[]),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_both_routes_leave_the_same_log(name: str, fleet_harness: AppHarness, worker: Worker) -> None:
    scenario = SCENARIOS[name]
    fleet_harness.agent(scenario.agent)

    here = _play(fleet_harness, scenario, detached=False)
    there = _play(fleet_harness, scenario, detached=True)

    assert there == here
    assert here[-1]["type"] == "end"


def _play(harness: AppHarness, scenario: Scenario, *, detached: bool) -> list[dict[str, Any]]:
    harness.model.script(scenario.turns)
    thread_id: str | None = None
    for sentence in scenario.before:
        earlier = harness.run(sentence, thread_id=thread_id, detached=detached)
        earlier.result(20)
        thread_id = earlier.thread_id
    handle = harness.run("Do it.", thread_id=thread_id, detached=detached)
    lines = []
    for event in handle.events():
        lines.append(encode(event, handle.run_id, handle.thread_id))
        if scenario.meanwhile is not None:
            scenario.meanwhile(event, handle)
    return _comparable(lines)


def _comparable(lines: list[bytes]) -> list[dict[str, Any]]:
    """Return events with ids named by their order and without times, and without pieces that were withdrawn.

    A reader that came a moment later never saw those: a hole that is declared, which is promised.
    """
    gone = {n for line in lines for first, last in orjson.loads(line).get("ranges", ()) for n in range(first, last + 1)}
    names: dict[str, str] = {}

    def rename(match: re.Match[str]) -> str:
        return names.setdefault(match.group(), f"{match.group(1)}#{len(names)}")

    events = []
    for line in lines:
        if orjson.loads(line)["seq"] in gone:
            continue
        event = orjson.loads(_HOST.sub("HOST", _ID.sub(rename, line.decode())))
        if "context" in event:  # which names the trace again
            event["context"] = _lasting(event["context"])
        events.append(_lasting(event))
    return events


def _lasting(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key not in _VOLATILE}
