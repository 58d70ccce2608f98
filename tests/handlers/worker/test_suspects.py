"""Suspects of one process follow each other: one is kept apart until the calls that it is suspected of have ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from sqlalchemy import select, update

from agents.handle import RunHandle
from agents.models.call import ModelCall
from agents.process import current_process
from agents.testing import AgentKit, Call, Turn
from bus.journal.states.crashes import ALWAYS_SUSPECT_AFTER, SUSPECT_AFTER
from config.database.tables import runs
from handlers.worker.run_agent_handler import Poller
from handlers.worker.slots import SlotPool, open_slot_pool, slot_pool
from tests.agents.sample_tools import add
from tests.journeys.neighbour import until

NOTE: dict[str, Any] = {
    "at": "2026-11-20T12:00:00.000Z",
    "attempt": 1,
    "seen": "its process ended",
    "during": "tool",
    "suspect": True,
}


def calls_then_stalls(call: ModelCall) -> Turn:
    """Have a tool called, and then begin an answer that does not end."""
    if call.messages[-1]["role"] == "tool":
        return Turn(text=["survived ", "it"], stall_after=2)
    return Turn(calls=[Call(name="add", arguments={"a": 1, "b": 2})])


@pytest.fixture
def suspects() -> Iterator[AgentKit]:
    with AgentKit(tools=[add]) as kit:
        kit.model.respond = calls_then_stalls
        yield kit
        kit.model.resume(0)
        until(lambda: kit.runner.journal.owner.lease_manager.busy == 0, 20, "its runs have ended")


def accept(kit: AgentKit, crashes: int, **note: bool) -> RunHandle:
    """Return a queued run that lost so many owners in a tool call; ``note`` is added to the last crash."""
    run = kit.run(detached=True)
    notes = [NOTE] * crashes
    values = {
        "crashes": crashes,
        "crashes_json": orjson.dumps([*notes[:-1], *(entry | note for entry in notes[-1:])]).decode(),
    }
    with kit.runner.journal.database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == run.run_id).values(**values))
    return run


def row(kit: AgentKit, run: RunHandle) -> Any:
    with kit.runner.journal.database.read() as connection:
        return connection.execute(select(runs).where(runs.c.id == run.run_id)).one()


def begin(kit: AgentKit) -> Poller:
    """Have this process take what is queued."""
    poller, loop = Poller(current_process(), SlotPool(10)), kit.runner.journal.loop
    for _ in range(2):  # seen waiting twice
        loop.run(poller.look(), 20)
    return poller


def until_it_streams(run: RunHandle) -> None:
    next(event for event in run.events() if event.event_type == "response")


def test_the_next_suspect_begins_when_the_calls_of_the_first_have_ended(suspects: AgentKit) -> None:
    first = accept(suspects, SUSPECT_AFTER)
    begin(suspects)
    until_it_streams(first)

    second = accept(suspects, SUSPECT_AFTER)
    begin(suspects)
    until_it_streams(second)

    assert [row(suspects, run).status for run in (first, second)] == ["running"] * 2
    assert row(suspects, first).crashes == SUSPECT_AFTER
    assert orjson.loads(row(suspects, first).crashes_json)[-1]["suspect"] is False


def test_one_with_three_crashes_is_kept_apart_to_its_end(suspects: AgentKit) -> None:
    first = accept(suspects, ALWAYS_SUSPECT_AFTER)
    begin(suspects)
    until_it_streams(first)

    assert not slot_pool().admit("another", is_suspect=True)
    suspects.model.resume()
    assert first.result(20).status == "succeeded"
    until(lambda: slot_pool().admit("another", is_suspect=True), 20, "another suspect may begin")
    slot_pool().leave("another")


def test_one_that_crashed_in_company_is_alone_until_its_calls_have_ended(suspects: AgentKit) -> None:
    beside = accept(suspects, 0)
    begin(suspects)
    until_it_streams(beside)
    alone = accept(suspects, ALWAYS_SUSPECT_AFTER, alone=False)

    begin(suspects)
    assert row(suspects, alone).status == "queued", "the process works on another run"
    suspects.model.resume()
    assert beside.result(20).status == "succeeded"
    leases = suspects.runner.journal.owner.lease_manager
    until(lambda: leases.busy == 0 or row(suspects, alone).status == "running", 20, "the other has ended")
    begin(suspects)  # if the look before has not found its turn come by itself
    until_it_streams(alone)

    assert orjson.loads(row(suspects, alone).crashes_json)[-1]["alone"] is None
    later = accept(suspects, 0)
    begin(suspects)
    until_it_streams(later)


@pytest.fixture
def slots() -> Iterator[SlotPool]:
    """The slots of a worker."""
    yield open_slot_pool(10)
    open_slot_pool(1_000_000)


def test_a_poller_takes_nothing_else_while_a_run_waits_to_be_alone(suspects: AgentKit, slots: SlotPool) -> None:
    poller, loop = Poller(current_process(), slots), suspects.runner.journal.loop
    slots.admit("run_of_this_process")
    slots.admit(accept(suspects, ALWAYS_SUSPECT_AFTER, alone=False).run_id, is_suspect=True, must_be_alone=True)
    accept(suspects, 0)

    assert [loop.run(poller.look(), 20) for _ in range(2)] == [1, 1], "the one that waits"
    until(lambda: slots.free == 10, 20, "it was refused")
    slots.leave(str(slots.reserved_for))
    slots.admit("run_that_another_process_has", is_suspect=True, must_be_alone=True)

    assert loop.run(poller.look(), 20) == 0
    assert slots.reserved_for is None
