"""Random graphs of all node types come to the same as a reference interpreter makes of them, on both databases."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from agents import testing
from agents.handle import RunHandle
from agents.models.call import ModelCall
from agents.models.scripted import Turn
from agents.testing import AgentKit
from agents.tools.tool import tool
from bus.journal.approvals import Decision
from bus.journal.errors import ApprovalDecided
from bus.payloads import TERMINAL
from config.database.engine import open_database
from config.database.tables import steps
from config.definitions.loading import definition_of
from config.definitions.workflows.fields import WorkflowDefinition
from tests.agents.workflows.conftest import Losses
from tests.agents.workflows.drawings import CHOICES, Drawing, drawings
from tests.agents.workflows.reference import Failed, Outside, Reference

DOUBLE = {
    "nodes": [
        {"id": "start", "type": "START"},
        {"id": "twice", "type": "FUNCTION", "config": {"tool": "twice", "arguments": {"n": "{{ input.n }}"}}},
        {"id": "end", "type": "END"},
    ],
    "edges": [{"source": "start", "target": "twice"}, {"source": "twice", "target": "end"}],
}


@tool(effect="unsafe")
def add(a: int, b: int) -> int:
    """Add two numbers; sums of five fail."""
    if (a + b) % 5 == 0:
        raise ValueError("a sum of five")
    return a + b


@tool(effect="idempotent")
def twice(n: int) -> int:
    """Double a number."""
    return 2 * n


def call(name: str, arguments: Mapping[str, Any]) -> Any:
    if not all(isinstance(value, int) and not isinstance(value, bool) for value in arguments.values()):
        raise Failed(arguments)
    if name == "double":
        return 2 * arguments["n"]
    if (arguments["a"] + arguments["b"]) % 5 == 0:
        raise Failed(arguments)
    return arguments["a"] + arguments["b"]


def answer(prompt: str) -> str:
    return [*CHOICES, "grey"][crc32(prompt.encode()) % 4]


def respond(request: ModelCall) -> Turn:
    return Turn(text=[answer(str(request.messages[-1]["content"]).partition("\n\n")[0])])


def approves(path: str) -> bool:
    return crc32(path.encode()) % 3 > 0


@pytest.fixture
def flow_kit(each_database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[AgentKit]:
    """A kit on a database of each kind."""
    if not each_database_url.startswith("sqlite"):
        monkeypatch.setattr(testing, "take_database", lambda: open_database(each_database_url))
    with AgentKit(settings={"questions_per_hour": 0}) as kit:
        kit.model.respond = respond
        kit.workflow("double", tools=[twice], **DOUBLE)
        yield kit


BOUNDS: Any = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture]}


@pytest.mark.parity
@settings(max_examples=30, **BOUNDS)
@given(drawing=drawings())
def test_a_random_graph_comes_to_what_the_reference_makes_of_it(flow_kit: AgentKit, drawing: Drawing) -> None:
    _require_same(flow_kit, drawing)


@pytest.mark.parity
@settings(max_examples=20, **BOUNDS)
@given(drawing=drawings(), behind=st.frozensets(st.integers(0, 25), min_size=1, max_size=10))
def test_a_random_graph_comes_to_the_same_where_commits_lose_their_owner(
    flow_kit: AgentKit, losses: Losses, drawing: Drawing, behind: frozenset[int]
) -> None:
    losses.begin(flow_kit, behind)

    _require_same(flow_kit, drawing)


def _require_same(flow_kit: AgentKit, drawing: Drawing) -> None:
    workflow_id = flow_kit.workflow(tools=[add], nodes=drawing.nodes, edges=drawing.edges)
    definition = definition_of(workflow_id, {"name": "Flow", "nodes": drawing.nodes, "edges": drawing.edges})
    assert isinstance(definition, WorkflowDefinition)
    outside = Outside(call=call, answer=answer, approves=approves, signals=_signals(drawing))
    reference = Reference(definition=definition, outside=outside, input={"n": 4})
    try:
        expected = reference.run()
    except Failed:
        expected = Failed

    handle = flow_kit.start(workflow_id, {"n": 4})
    _drive(flow_kit, handle, drawing)
    end = handle.result(10)

    assert end.status == ("failed" if expected is Failed else "succeeded"), end
    if expected is not Failed:
        assert _plain(end.output) == _plain(expected)
        assert _executed(flow_kit, handle.run_id) == reference.executed


def _signals(drawing: Drawing) -> dict[str, Any]:
    names = [node["config"]["signal"] for node in drawing.nodes if "signal" in node["config"]]
    return {name: 1 + crc32(name.encode()) % 9 for name in names}


def _drive(kit: AgentKit, handle: RunHandle, drawing: Drawing) -> None:
    """Answer what a run asks, and send the signals that it waits for, until it ends."""
    sent: set[str] = set()
    until_s = time.monotonic() + 8
    while (status := handle.status()) not in TERMINAL:
        assert time.monotonic() < until_s, status
        if status == "waiting":
            for question in handle.approvals():
                before = "approve" if approves(question["call_id"]) else "reject"
                decision = before if question["kind"] == "call" else "run_again"  # its owner was lost
                with suppress(ApprovalDecided):
                    handle.decide(question["approval_id"], Decision(decision=decision))
            for name in _awaited(kit, handle.run_id) - sent:
                sent.add(name)
                kit.runner.signal(handle.run_id, name, _signals(drawing)[name.partition("-")[0]])
        time.sleep(0.005)


def _awaited(kit: AgentKit, run_id: str) -> set[str]:
    """Return the names of the signals that a run waits for."""
    query = select(steps.c.node).where(steps.c.run_id == run_id, steps.c.kind == "wait", steps.c.ended_ms.is_(None))
    with kit.runner.journal.database.read() as connection:
        paths = connection.execute(query).scalars().all()
    names = [path.split("/") for path in paths]
    return {"-".join([f"signal_{parts[-1]}", *(part for part in parts if part.isdecimal())]) for parts in names}


def _executed(kit: AgentKit, run_id: str) -> dict[str, str]:
    query = select(steps.c.node, steps.c.status).where(steps.c.run_id == run_id, steps.c.kind != "item")
    with kit.runner.journal.database.read() as connection:
        rows = connection.execute(query.order_by(steps.c.number)).all()
    return {row.node: "done" if row.status == "done" else "failed" for row in rows}


def _plain(output: Any) -> Any:
    """Return an output with one word for each error, and for what an approved gate gives."""
    if isinstance(output, dict) and "error" in output:
        return "error"
    if isinstance(output, dict) and output.get("approved"):
        return "approved"
    if isinstance(output, dict):
        return {key: _plain(value) for key, value in output.items()}
    return [_plain(value) for value in output] if isinstance(output, list) else output
