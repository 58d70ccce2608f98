"""A message with the policy `steer` on a real worker: it goes to the open run at the end of the step under way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.handle import RunHandle
from bus.journal.queries.run_record import record_of
from bus.payloads import ControlPayload
from cli.crashlab.invariants import breaches
from config.settings import Settings
from tests.app_harness import AppHarness
from tests.fleet import Worker
from tests.journeys.neighbour import read_until_it_speaks, run_row, until
from tests.journeys.outside_tools import arrived
from tests.model_server import Call, Turn

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]
ANSWER = Turn(text="Un, deux.")


@pytest.fixture(scope="module")
def worked(fleet_settings: Settings, fleet_harness: AppHarness) -> Iterator[AppHarness]:
    """An agent with a tool that lasts until a test ends it, and a worker."""
    fleet_harness.agent("tools: ['tests.journeys.outside_tools:unsafe']")
    with Worker(fleet_settings, log=fleet_settings.state / "worker.log"):
        yield fleet_harness


@pytest.fixture(autouse=True)
def forgotten(fleet_harness: AppHarness) -> None:
    fleet_harness.model.forget()


def steer(harness: AppHarness, handle: RunHandle) -> None:
    """Send a message to the run's busy thread, and return when the run's worker has it."""
    sent = harness.run("In French.", detached=True, thread_id=handle.thread_id, if_busy="steer")
    assert (sent.run_id, sent.is_new, sent.delivery.delivered) == (handle.run_id, False, "steered")
    accepted = next(event for event in handle.events() if isinstance(event, ControlPayload))
    assert (accepted.control_id, accepted.state) == (sent.delivery.control_id, "accepted")


def assert_consumed_behind(harness: AppHarness, handle: RunHandle, event_type: str) -> list[str]:
    """The text is consumed once, behind an event of this type; return the roles of what the model then got."""
    assert handle.result(60).output == "Un, deux."
    events = [event for event in handle.events() if event.event_type not in ("response", "withdrawn")]
    accepted, consumed = (event for event in events if isinstance(event, ControlPayload))
    assert (accepted.state, consumed.state, consumed.consumed_at) == ("accepted", "consumed", consumed.seq)
    before = events[: events.index(consumed)]
    assert next(e.event_type for e in reversed(before) if e is not accepted) == event_type
    assert [event.event_type for event in events].count("end") == 1
    with harness.runner.journal.database.read() as connection:
        assert list(breaches(record_of(connection, run_row(harness, handle)))) == []
    messages = harness.model.requests[-1].body["messages"]
    assert messages[-1] == {"role": "user", "content": "In French."}
    return [message["role"] for message in messages]


def test_while_the_model_streams_it_is_consumed_behind_the_whole_answer(worked: AppHarness) -> None:
    worked.model.script([Turn(text=["one ", "two ", "three"], stall_after=2), ANSWER])
    handle = worked.run("Count.", detached=True)
    read_until_it_speaks(handle)

    steer(worked, handle)
    worked.model.resume()

    assert assert_consumed_behind(worked, handle, "message") == ["system", "user", "assistant", "user"]


def test_while_a_tool_runs_it_is_consumed_behind_the_result(worked: AppHarness, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    worked.model.script([Turn(calls=[Call(name="unsafe", arguments={"ledger": str(ledger)})]), ANSWER])
    handle = worked.run("Count.", detached=True)
    until(lambda: bool(arrived(ledger)), 60, "the tool was called")

    steer(worked, handle)
    ledger.with_name("ledger.over").touch()

    assert assert_consumed_behind(worked, handle, "tool_result") == ["system", "user", "assistant", "tool", "user"]
    assert len(arrived(ledger)) == 1
