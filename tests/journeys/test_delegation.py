"""Child runs on two real workers: sixteen at once without a slot for the parent, and a stop through three levels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from agents.handle import RunHandle
from bus.payloads import ChildPayload, ToolResultPayload
from config.settings import Settings
from tests.app_harness import AppHarness
from tests.fleet import Worker
from tests.journeys.neighbour import until
from tests.model_server import Call, Turn

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]
SPEAKING = Turn(text=["one ", "two ", "three"], stall_after=2)


@pytest.fixture(scope="module")
def family(fleet_settings: Settings, fleet_harness: AppHarness) -> Iterator[AppHarness]:
    """Agents that delegate to each other, and two workers with two slots each."""
    fleet_harness.agent("tools: ['agent:one']", "top")
    fleet_harness.agent("tools: ['agent:two']", "one")
    fleet_harness.agent("tools: ['agent:three']", "two")
    fleet_harness.agent("", "three")
    with ExitStack() as workers:
        for name in ("first", "second"):
            log = fleet_settings.state / f"{name}.log"
            workers.enter_context(Worker(fleet_settings, "--concurrency", "2", log=log))
        yield fleet_harness


def respond_with(harness: AppHarness, turns: Mapping[str, Turn]) -> None:
    """Answer each agent by what it was asked; with results, with these."""

    def respond(body: Mapping[str, Any]) -> Turn:
        results = [str(message["content"]) for message in body["messages"] if message["role"] == "tool"]
        if results:
            return Turn(text=", ".join(results))
        return turns[next(message["content"] for message in body["messages"] if message["role"] == "user")]

    harness.model.respond = respond


def ask(agent: str, message: str) -> Call:
    return Call(name=agent, arguments={"message": message})


def descendants(harness: AppHarness, handle: RunHandle) -> list[dict[str, Any]]:
    run = harness.runner.journal.readers.runs.get(harness.runner.principal, handle.run_id)
    return list(run.get("children", ()))


def test_sixteen_children_answer_in_order_while_the_parent_holds_no_slot(family: AppHarness) -> None:
    answers = {str(number): Turn(text=f"answer {number}") for number in range(16)}
    respond_with(family, {"Go.": Turn(calls=[ask("one", str(number)) for number in range(16)]), **answers})

    handle = family.run("Go.", "top", detached=True)

    assert handle.result(90).output == ", ".join(f"answer {number}" for number in range(16))
    events = list(handle.events())
    results = [event for event in events if isinstance(event, ToolResultPayload)]
    assert [result.result for result in results] == [f"answer {number}" for number in range(16)]
    changes = [event for event in events if isinstance(event, ChildPayload)]
    assert sorted(event.status for event in changes) == ["queued"] * 16 + ["succeeded"] * 16
    assert {child["status"] for child in descendants(family, handle)} == {"succeeded"}


def test_a_stop_reaches_a_child_that_streams_three_levels_below(family: AppHarness) -> None:
    respond_with(
        family,
        {
            "Go.": Turn(calls=[ask("one", "a"), ask("one", "b")]),
            "a": Turn(calls=[ask("two", "c")]),
            "b": Turn(calls=[ask("two", "c")]),
            "c": Turn(calls=[ask("three", "d")]),
            "d": SPEAKING,
        },
    )
    handle = family.run("Go.", "top", detached=True)
    until(lambda: [child["agent"] for child in descendants(family, handle)].count("three") == 2, 60, "all are begun")
    deepest = [child["run_id"] for child in descendants(family, handle) if child["agent"] == "three"]
    until(lambda: all(family.runner.journal.readers.runs.status(run_id) == "running" for run_id in deepest), 60, "run")

    handle.cancel()

    assert handle.result(10).status == "cancelled"
    ends = [family.runner.handle(child["run_id"]).result(10).status for child in descendants(family, handle)]
    assert ends == ["cancelled"] * 6
