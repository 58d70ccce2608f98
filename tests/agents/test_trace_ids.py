"""A run keeps the trace id of what started it, and its model and tools work in that trace and in no other."""

from __future__ import annotations

import io
import logging

import orjson
import pytest
from sqlalchemy import select

from agents.execution import execute
from agents.handle import RunHandle
from agents.models.call import ModelCall
from agents.process import current_process
from agents.testing import AgentKit, Call, Turn
from agents.tools import tool
from bus.journal.readers import RunFilter
from bus.messages.run_agent import RunAgentMessage
from bus.payloads import StatusPayload
from config.database.tables import runs, steps
from config.logs import JsonLines
from config.tracing import (
    current_headers,
    current_trace_id,
    current_traceparent,
    is_trace_id,
    parent_span_of,
    span_id_of,
    trace_id_of,
    traced,
)
from handlers.worker.run_agent_handler import RunAgentHandler

ID = "4bf92f3577b34da6a3ce929d0e0e4736"
ORDER = "order 4711"
log = logging.getLogger("callboard.tests.tools")
seen: list[str | None] = []


@tool(effect="pure")
def look() -> str:
    """Note the trace."""
    seen.append(current_trace_id())
    return "looked"


@tool(effect="pure")
async def watch() -> str:
    """Log something on the loop."""
    log.info("watched")
    return "watched"


@tool(effect="pure")
def note() -> str:
    """Log something on a thread."""
    log.info("noted")
    return "noted"


def looks_once(call: ModelCall) -> Turn:
    seen.append(current_trace_id())
    is_first = call.messages[-1]["role"] == "user"
    return Turn(calls=[Call(name="look", arguments={})]) if is_first else Turn(text="done")


def kept(kit: AgentKit, run: RunHandle) -> str | None:
    with kit.runner.journal.database.read() as connection:
        value: str | None = connection.execute(select(runs.c.trace_id).where(runs.c.id == run.run_id)).scalar_one()
    return value


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

    RunAgentHandler(current_process()).take(
        RunAgentMessage.from_wire(message.to_wire()).with_headers(message.to_headers())
    )

    assert claimed_in == [ID]
    assert current_trace_id() is None


def test_the_runs_row_decides_and_not_the_header_of_a_message(kit: AgentKit) -> None:
    kit.agent(tools=[look])
    kit.model.respond = looks_once
    seen.clear()
    with traced(ID):
        run = kit.run(detached=True)
    with kit.runner.journal.database.read() as connection:
        message = RunAgentMessage.of_run(connection.execute(select(runs).where(runs.c.id == run.run_id)).one())

    forged = message.with_headers({"traceparent": f"00-{'f' * 32}-00f067aa0ba902b7-01", "x-correlation-id": "other"})
    claimed = RunAgentHandler(current_process()).take(forged)
    assert claimed is not None
    kit.runner.journal.loop.run(execute(kit.runner.journal, claimed), 30)

    assert set(seen) == {ID}
    assert kit.runner.journal.readers.runs.get(kit.runner.principal, run.run_id)["correlation_id"] == ID


def test_a_run_has_the_correlation_id_of_its_client_or_else_its_trace_id(kit: AgentKit) -> None:
    kit.agent(tools=[])
    kit.model.respond = lambda _: Turn(text="done")
    with traced(ID):
        chosen, other = kit.run(metadata={"correlation_id": ORDER}), kit.run(metadata={"correlation_id": ["no text"]})
    with traced(ID, ORDER):
        inherited = kit.run()  # as a tool that starts another run
    runs_ = kit.runner.journal.readers.runs
    run_details = {run.run_id: runs_.get(kit.runner.principal, run.run_id) for run in (chosen, other, inherited)}

    assert [run_details[run.run_id]["correlation_id"] for run in (chosen, other, inherited)] == [ORDER, ID, ORDER]
    for run in (chosen, other, inherited):
        first = next(iter(run.events()))
        assert isinstance(first, StatusPayload)
        assert (first.trace_id, first.correlation_id) == (ID, run_details[run.run_id]["correlation_id"])
        run.result(30)
    filters: list[RunFilter] = [{"trace_id": ID}, {"correlation_id": ORDER}, {"correlation_id": ID}]
    run_ids = [{run["run_id"] for run in runs_.newest(kit.runner.principal, **condition)} for condition in filters]
    assert run_ids == [set(run_details), {chosen.run_id, inherited.run_id}, {other.run_id}]


def test_records_of_tools_on_the_loop_and_on_threads_have_the_run_and_its_ids(kit: AgentKit) -> None:
    calls = [Call(name="watch", arguments={}), Call(name="note", arguments={})]
    kit.agent(tools=[watch, note])
    kit.model.script(Turn(calls=calls), Turn(text="done"), Turn(calls=calls), Turn(text="done"))
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines("worker"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        with traced(ID):
            run = kit.run(metadata={"correlation_id": ORDER})
            run.result(30)
        kit.run().result(30)
    finally:
        log.removeHandler(handler)

    lines = [orjson.loads(line) for line in stream.getvalue().splitlines()]
    of_run = [line for line in lines if line["run_id"] == run.run_id]
    assert {line["message"] for line in of_run} == {"watched", "noted"}
    assert {(line["trace_id"], line["correlation_id"]) for line in of_run} == {(ID, ORDER)}
    others = [line for line in lines if line not in of_run]
    assert len(others) == 2
    assert not any("correlation_id" in line or line["trace_id"] == ID for line in others)


def test_what_a_tool_sends_to_other_programs_continues_the_trace(kit: AgentKit) -> None:
    sent: list[dict[str, str]] = []

    @tool(effect="pure", name="look")
    def send() -> str:
        """Send a message."""
        sent.append(current_headers())
        return "sent"

    kit.agent(tools=[send])
    kit.model.respond = looks_once
    with traced(ID):
        run = kit.run()

    assert run.result(30).status == "succeeded"
    assert [(trace_id_of(headers["traceparent"]), headers["x-correlation-id"]) for headers in sent] == [(ID, ID)]


@tool(effect="pure")
def ask_on() -> str:
    """Note what a request to another program names as its parent."""
    seen.append(parent_span_of(current_traceparent()))
    return "asked"


def test_a_run_keeps_the_callers_span_and_its_calls_are_the_parents_of_what_they_ask(kit: AgentKit) -> None:
    kit.agent(tools=[ask_on])
    kit.model.script(Turn(calls=[Call(name="ask_on", arguments={})]), Turn(text="done"))
    seen.clear()
    with traced(ID, parent_span="00f067aa0ba902b7"):
        run = kit.run()

    assert run.result(30).status == "succeeded"
    with kit.runner.journal.database.read() as connection:
        parent = connection.execute(select(runs.c.parent_span).where(runs.c.id == run.run_id)).scalar_one()
        step_id = connection.execute(select(steps.c.id).where(steps.c.name == "ask_on")).scalar_one()
    assert (parent, seen) == ("00f067aa0ba902b7", [span_id_of(step_id)])


def test_a_run_without_a_caller_has_no_parent(kit: AgentKit) -> None:
    kit.agent()
    run = kit.run()

    assert run.result(30).status == "succeeded"
    with kit.runner.journal.database.read() as connection:
        assert connection.execute(select(runs.c.parent_span)).scalars().all() == [None]
