"""A run keeps the trace id of what started it, and its model and tools work in that trace and in no other."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from agents.handle import RunHandle
from agents.models.call import ModelCall
from agents.process import current_process
from agents.testing import AgentKit, Call, Turn
from agents.tools import tool
from bus.messages import RunAgentMessage
from config.database.tables import runs
from config.tracing import current_trace_id, is_trace_id, traced
from handlers.run_agent import RunAgentHandler

ID = "4bf92f3577b34da6a3ce929d0e0e4736"
seen: list[str | None] = []


@tool(effect="pure")
def look() -> str:
    """Note the trace."""
    seen.append(current_trace_id())
    return "looked"


def looks_once(call: ModelCall) -> Turn:
    seen.append(current_trace_id())
    is_first = call.messages[-1]["role"] == "user"
    return Turn(calls=[Call(name="look", arguments={})]) if is_first else Turn(text="done")


def kept(kit: AgentKit, run: RunHandle) -> str | None:
    with kit.runner.journal.database.read() as connection:
        found: str | None = connection.execute(select(runs.c.trace_id).where(runs.c.id == run.run_id)).scalar_one()
    return found


def test_the_model_and_the_tools_of_a_run_work_in_its_trace(kit: AgentKit) -> None:
    kit.agent(tools=[look])
    kit.model.respond = looks_once
    seen.clear()
    with traced(ID):
        run = kit.run()

    assert run.result(30).status == "succeeded"
    assert kept(kit, run) == ID
    assert set(seen) == {ID}
    assert len(seen) >= 2


def test_each_run_without_a_trace_gets_its_own(kit: AgentKit) -> None:
    kit.agent(tools=[look])
    kit.model.respond = looks_once
    seen.clear()
    with traced(ID):
        kit.run().result(30)
    before = len(seen)
    first, second = kit.run(), kit.run()
    for run in (first, second):
        run.result(30)

    own = [kept(kit, run) for run in (first, second)]
    assert all(map(is_trace_id, own))
    assert len({ID, *own}) == 3
    assert set(seen[before:]) == set(own)


def test_a_worker_claims_in_the_messages_trace_and_forgets_it(kit: AgentKit, monkeypatch: pytest.MonkeyPatch) -> None:
    with traced(ID):
        run = kit.run(detached=True)
    with kit.runner.journal.database.read() as connection:
        message = RunAgentMessage.of_run(connection.execute(select(runs).where(runs.c.id == run.run_id)).one())
    claimed_in: list[str | None] = []
    monkeypatch.setattr(RunAgentHandler, "claim", lambda *_: claimed_in.append(current_trace_id()))

    RunAgentHandler(current_process()).take(RunAgentMessage.from_wire(message.to_wire()))

    assert claimed_in == [ID]
    assert current_trace_id() is None
