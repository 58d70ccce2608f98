"""What ends a run whatever its definition says of failures; and what a retry of an edited file makes again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agents.models.scripted import Turn
from agents.testing import AgentKit
from agents.tools.tool import tool
from bus.journal.clients import Origin
from tests.agents.workflows import blueprints
from tests.agents.workflows.flows import END, START, answer, chain, edges, labels, node, wait_until

CALLS: list[str] = []


@tool(effect="unsafe")
def book(what: str) -> str:
    """Book something."""
    CALLS.append(what)
    return what


@tool(effect="unsafe")
def forbidden() -> str:
    """Do what no policy allows."""
    CALLS.append("forbidden")
    return "done"


@pytest.fixture(autouse=True)
def _fresh() -> None:
    CALLS.clear()


@pytest.fixture
def halting(tmp_path: Path) -> Any:
    """A kit whose policy ends a run for one tool."""
    policy = tmp_path / "policy.yaml"
    policy.write_text("rules: [{name: never, verdict: halt, reason: Never., when: {tools: [forbidden]}}]")
    with AgentKit(settings={"policy": str(policy)}) as kit:
        yield kit


def test_a_halt_of_the_policy_ends_the_run_whatever_its_node_says_of_failures(halting: AgentKit) -> None:
    stopped = node("no", "FUNCTION", {"on_error": "continue"}, tool="forbidden")
    halting.workflow(
        tools=[book, forbidden], **chain(stopped, node("b", "FUNCTION", tool="book", arguments={"what": "x"}))
    )

    end = halting.start().result(5)

    assert (end.status, end.reason, CALLS) == ("failed", "policy_refused", [])


def test_a_halt_in_an_item_is_collected_by_no_list(halting: AgentKit) -> None:
    each = node("each", "FOR_EACH", items=[1, 2], on_item_error="collect")
    nodes = [START, each, node("no", "FUNCTION", tool="forbidden"), END]
    halting.workflow(tools=[forbidden], nodes=nodes, edges=edges("start each", "each no foreach-body", "each end"))

    end = halting.start().result(5)

    assert (end.status, end.reason, CALLS) == ("failed", "policy_refused", [])


def test_a_halt_is_caught_by_no_blueprint(halting: AgentKit) -> None:
    halting.workflow(tools=[book, forbidden], blueprint=f"{blueprints.__name__}:StubbornBlueprint")

    end = halting.start().result(5)

    assert (end.status, end.reason, CALLS) == ("failed", "policy_refused", [])


@pytest.mark.parametrize("seconds", ["soon", True, -1, 1e300])
def test_a_wait_of_no_time_fails_its_node(kit: AgentKit, seconds: Any) -> None:
    waiting = node("w", "WAIT", {"on_error": "continue"}, seconds="{{ input.seconds }}")
    kit.workflow(**chain(waiting, node("t", "TRANSFORM", output="{{ nodes.w.error.code }}")))

    assert kit.start("flow", {"seconds": seconds}).result(5).output == "expression_failed"


def test_what_another_agent_wrote_is_a_models_text(kit: AgentKit) -> None:
    kit.agent("writer")
    kit.model.respond = lambda _: Turn(text=["Pay me."])
    nodes = [node("a", "FUNCTION", tool="agent:writer", arguments={"message": "Write."}), node("w", "WAIT", signal="s")]
    kit.workflow(**chain(*nodes))
    handle = kit.start()

    wait_until(lambda: "w" in labels(kit, handle), "the agent does not answer")

    assert labels(kit, handle)["a"] == ["model"]
    handle.cancel()


def test_the_error_of_a_models_node_is_a_models_text(kit: AgentKit) -> None:
    kit.model.respond = lambda _: Turn(text=['{"a": "Ignore all."}'])
    schema = {"type": "object", "properties": {"a": {"enum": ["x"]}}}
    asking = node("m", "LLM", {"on_error": "continue"}, prompt="Hi", output_schema=schema)
    kit.workflow(**chain(asking, node("t", "TRANSFORM", output="{{ nodes.m.error.message }}")))
    handle = kit.start()

    assert "Ignore all." in handle.result(5).output
    assert labels(kit, handle)["t"] == ["model"]


@pytest.mark.parametrize("changed", ["description", "variables"])
def test_a_retry_makes_again_what_the_edit_changes_and_nothing_else(kit: AgentKit, changed: str) -> None:
    flow = chain(
        node("c", "CHOICE", branches=[{"condition": "input.n > 0"}]),
        node("b", "FUNCTION", tool="book", arguments={"what": "{{ variables.what }}"}),
        node("t", "TRANSFORM", output="{{ input.missing }}"),
    )
    flow["edges"][1]["source_handle"] = "branch-0"
    kit.workflow(tools=[book], variables={"what": "old"}, **flow)
    handle = kit.start("flow", {"n": 1})
    assert handle.result(5).status == "failed"

    kit.workflow(
        tools=[book], variables={"what": "new" if changed == "variables" else "old"}, description="Other.", **flow
    )
    again = kit.runner.repeat(Origin(run_id=handle.run_id, kind="retry"), kit.runner.principal)
    if changed == "variables":
        answer(again, "approve")  # another call than the one that was made
    again.result(5)

    assert (["old", "new"] if changed == "variables" else ["old"]) == CALLS
