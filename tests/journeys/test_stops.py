"""Stop means stop: wherever a run is, on every pool, its thread can be gone on with afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from agents.handle import RunHandle
from bus.payloads import EndPayload, MessagePayload, Payload, StatusPayload, ToolResultPayload
from config.settings import Settings
from tests.app_harness import AppHarness
from tests.fleet import Worker
from tests.journeys.neighbour import read_until_it_speaks, step_rows, until
from tests.journeys.outside_tools import arrived
from tests.model_server import Call, Turn

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]

PLACES = {"threads": 2, "processes": 2, "solo": 1}
"""Runs the worker of each pool has room for."""
STALLED = Turn(text=["one ", "two ", "three"], stall_after=3)
DONE = Turn(text="As if nothing had been.")
TOOLS = ("outside_tools:pure", "outside_tools:unsafe", "outside_tools:unsafe_async")
AGENT = """
tools: [{}, 'tests.agents.sample_tools:pay', 'tests.agents.sample_tools:wait_long']
timeouts: {{first_token_s: 300, between_chunks_s: 300}}
""".format(", ".join(f"'tests.journeys.{name}'" for name in TOOLS))
SOON_S = 1.0
"""The provider's socket is closed within this."""


@dataclass
class Stage:
    """A worker of one pool."""

    harness: AppHarness
    places: int

    def run(self, *turns: Turn, thread_id: str | None = None) -> RunHandle:
        """Start a run the model answers so."""
        self.harness.model.script(turns)
        return self.harness.run("Go.", detached=True, thread_id=thread_id)

    def in_a_tool(self, name: str, arguments: Mapping[str, Any], ledger: Path | None = None) -> RunHandle:
        """Return a run in the middle of a call."""
        handle = self.run(Turn(text="I use it.", calls=[Call(name=name, arguments=arguments)]))
        until(lambda: any(step["kind"] == "tool" for step in step_rows(self.harness, handle)), 60, "a call was begun")
        if ledger is not None:
            until(lambda: bool(arrived(ledger)), 60, "the tool was called")
        return handle


@pytest.fixture(scope="module", params=list(PLACES))
def stage(request: pytest.FixtureRequest, fleet_settings: Settings, fleet_harness: AppHarness) -> Iterator[Stage]:
    """The pool's worker, started once for all its stops."""
    pool, places = request.param, PLACES[request.param]
    fleet_harness.agent(AGENT)
    log = fleet_settings.state / f"{pool}.log"
    with Worker(fleet_settings, "--pool", pool, "--concurrency", str(places), log=log):
        new_stage = Stage(fleet_harness, places)
        new_stage.run(DONE).result(90)  # LiteLLM's first call takes its time
        yield new_stage


@pytest.fixture(autouse=True)
def forgotten(fleet_harness: AppHarness) -> None:
    """Each test begins with a model server that remembers nothing."""
    fleet_harness.model.forget()


def stopped(handle: RunHandle) -> tuple[EndPayload, list[Payload]]:
    """Stop the run and return its end, with its log."""
    handle.cancel(by="ann")
    events = list(handle.events())
    assert [type(event) for event in events].count(EndPayload) == 1
    end = events[-1]
    assert isinstance(end, EndPayload)
    assert end.status == handle.status() == "cancelled"
    return end, events


def outcomes(events: Sequence[Payload]) -> list[str]:
    return [event.outcome for event in events if isinstance(event, ToolResultPayload)]


def assert_continues(harness: AppHarness, handle: RunHandle) -> None:
    """The thread takes another run, and the model is shown a result for each call it made."""
    harness.model.script([DONE])
    following = harness.run("And now?", detached=True, thread_id=handle.thread_id)
    assert following.result(60).output == "As if nothing had been."
    messages = harness.model.requests[-1].body["messages"]
    calls = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    assert calls == [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert all(step["ended_ms"] is not None for step in step_rows(harness, handle))


def test_while_streaming_the_socket_is_closed_and_what_was_said_is_counted(stage: Stage) -> None:
    handle = stage.run(STALLED)
    read_until_it_speaks(handle)
    stage.harness.model.closed_early.clear()

    began_s = time.monotonic()
    handle.cancel(by="ann")
    assert stage.harness.model.closed_early.wait(10)
    took_s = time.monotonic() - began_s
    end, events = stopped(handle)

    assert took_s < SOON_S
    assert end.usage is not None
    assert end.usage["input_tokens"] > 0
    assert 1 <= end.usage["output_tokens"] <= 3
    assert [event.partial for event in events if isinstance(event, MessagePayload)][-1] is True
    assert_continues(stage.harness, handle)


def test_while_queued_behind_others(stage: Stage) -> None:
    busy = [stage.run(STALLED) for _ in range(stage.places)]
    for handle in busy:
        read_until_it_speaks(handle)
    waiting = stage.run()

    _, events = stopped(waiting)
    for handle in busy:
        stopped(handle)

    assert [event.status for event in events if isinstance(event, StatusPayload)] == ["queued"]
    assert len(stage.harness.model.requests) == stage.places
    assert_continues(stage.harness, waiting)


def test_in_an_async_tool_the_call_is_cancelled(stage: Stage) -> None:
    handle = stage.in_a_tool("wait_long", {})

    end, events = stopped(handle)

    assert outcomes(events) == ["cancelled"], "it is pure: nothing is left of it"
    assert end.usage is not None
    assert end.usage["input_tokens"] > 0
    assert_continues(stage.harness, handle)


def test_in_an_async_tool_with_an_effect_the_outcome_is_unknown(stage: Stage, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    handle = stage.in_a_tool("unsafe_async", {"ledger": str(ledger)}, ledger)

    _, events = stopped(handle)

    assert outcomes(events) == ["unknown"]
    assert_continues(stage.harness, handle)
    assert len(arrived(ledger)) == 1


@pytest.mark.parametrize(("name", "outcome"), [("unsafe", "unknown"), ("pure", "cancelled")])
def test_in_a_plain_tool_the_call_is_left_behind(stage: Stage, name: str, outcome: str, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    handle = stage.in_a_tool(name, {"ledger": str(ledger)}, ledger)

    _, events = stopped(handle)
    assert_continues(stage.harness, handle)
    Path(f"{ledger}.over").touch()  # its thread ends only now

    assert outcomes(events) == [outcome]
    assert len(arrived(ledger)) == 1


def test_while_it_waits_for_an_answer(stage: Stage) -> None:
    handle = stage.run(Turn(calls=[Call(name="pay")]))
    until(lambda: handle.status() == "waiting", 60, "a person is asked")

    end, events = stopped(handle)

    assert outcomes(events) == ["unknown"]
    assert handle.approvals() == []
    asking, _ = step_rows(stage.harness, handle)
    assert end.usage is not None
    assert (end.usage, end.cost_usd) == (orjson.loads(asking["usage_json"]), asking["cost_usd"])
    assert end.usage["input_tokens"] > 0
    assert end.steps == 2
    assert_continues(stage.harness, handle)


def test_before_any_worker_lived(open_harness: Callable[..., AppHarness]) -> None:
    harness = open_harness(
        lease_s=15.0, beat_s=5.0
    )  # of its own: the last worker of ``stage`` lives until the module ends
    harness.agent(AGENT)
    handle = harness.run("Go.", detached=True)

    _, events = stopped(handle)

    assert [event.status for event in events if isinstance(event, StatusPayload)] == ["queued"]
    with Worker(harness.settings, log=harness.settings.state / "late.log"):
        assert_continues(harness, handle)
    assert len(harness.model.requests) == 1, "no worker began the run that was stopped"
