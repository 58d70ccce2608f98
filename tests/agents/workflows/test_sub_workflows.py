"""Workflows that call workflows."""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, select

from agents.testing import AgentKit
from bus.payloads import ErrorPayload
from config.database.tables import runs
from tests.agents.workflows.flows import END, START, chain, edges, events, node, states, until, wait_until


def calls(kit: AgentKit, caller: str, called: str, **config: Any) -> None:
    """Configure a workflow that calls another one with its own input."""
    sub = node("sub", "SUB_WORKFLOW", workflow=called, **{"input": {"n": "{{ input.n }}"}, **config})
    kit.workflow(caller, **chain(sub))


def refusal(kit: AgentKit, workflow: str) -> tuple[str, int]:
    """Return the sentence with which a run fails, and of how many runs."""
    handle = kit.start(workflow, {"n": 1})
    end = handle.result(5)
    [error] = [event for event in events(kit, handle) if isinstance(event, ErrorPayload)]
    with kit.runner.journal.database.read() as connection:
        count = connection.execute(select(func.count()).select_from(runs)).scalar_one()
    assert (end.status, end.reason) == ("failed", "child_failed")
    return error.message, count


def test_a_node_maps_its_input_and_the_output_of_the_child_run(kit: AgentKit) -> None:
    kit.workflow("inner", **chain(node("t", "TRANSFORM", output={"sum": "{{ input.n + 10 }}"})))
    calls(kit, "outer", "inner", input={"n": "{{ input.n + 1 }}"}, output="{{ result.sum }}")

    assert kit.start("outer", {"n": 4}).result(5).output == 15


def test_what_a_caller_leaves_out_has_its_default_and_is_recorded(kit: AgentKit) -> None:
    fields = {"n": {"type": "integer"}, "by": {"type": "integer", "default": 7}, "note": {"type": "string"}}
    schema = {"type": "object", "properties": fields, "required": ["n", "by"]}
    kit.workflow("inner", input=schema, **chain(node("t", "TRANSFORM", output="{{ input }}")))
    calls(kit, "outer", "inner")

    handle = kit.start("inner", {"n": 1})

    assert handle.result(5).output == {"n": 1, "by": 7}
    row = kit.runner.journal.readers.runs.row(kit.runner.principal, handle.run_id)
    assert row.title == "Flow: n 1, by 7"
    assert kit.start("outer", {"n": 2}).result(5).output == {"n": 2, "by": 7}
    assert kit.start("inner", {"n": 3, "by": 0}).result(5).output == {"n": 3, "by": 0}


def test_a_workflow_that_calls_itself_through_a_third_is_refused_before_there_is_a_run(kit: AgentKit) -> None:
    for caller, called in (("one", "two"), ("two", "three"), ("three", "one")):
        calls(kit, caller, called)

    sentence, count = refusal(kit, "one")

    assert "delegation_refused" in sentence
    assert "one -> two -> three -> one" in sentence
    assert count == 3


def test_a_fourth_level_is_refused(kit: AgentKit) -> None:
    kit.workflow("w4", **chain(node("t", "TRANSFORM", output=1)))
    for level in range(4):
        calls(kit, f"w{level}", f"w{level + 1}")

    sentence, count = refusal(kit, "w0")

    assert "delegation_refused" in sentence
    assert "3 levels below" in sentence
    assert count == 4
    assert kit.start("w1", {"n": 1}).result(5).output == 1


def test_a_run_takes_its_signal_while_a_child_run_waits(kit: AgentKit) -> None:
    kit.workflow("inner", **chain(node("w", "WAIT", signal="inner")))
    nodes = [START, node("sub", "SUB_WORKFLOW", workflow="inner", input={}), node("w", "WAIT", signal="outer"), END]
    kit.workflow(nodes=nodes, edges=edges("start sub", "start w", "sub end", "w end"))
    handle = kit.start()
    until(handle, "waiting")

    kit.runner.signal(handle.run_id, "outer", 1)

    wait_until(lambda: states(kit, handle)["w"] == "done", "the signal was not taken")
    until(handle, "waiting")
    handle.cancel()
    assert handle.result(5).status == "cancelled"
