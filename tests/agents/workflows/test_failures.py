"""How failures are recorded: the next owner of a run reads them as they were, and its end names what they leave."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from agents.models.errors import ModelFailed
from agents.models.scripted import Turn
from agents.testing import AgentKit
from agents.tools.tool import tool
from tests.agents.workflows import blueprints
from tests.agents.workflows.conftest import Losses
from tests.agents.workflows.flows import END, START, chain, edges, node, results
from tests.bus.faulty_commits import Fault, FaultyCommits

PAID: list[int] = []


@tool(effect="unsafe", timeout_s=0.3)
async def pay(n: int) -> int:
    """Pay; 7 fails, and 8 takes too long."""
    if n == 7:
        raise ValueError("the bank is closed")
    PAID.append(n)
    await asyncio.sleep(5 if n == 8 else 0)
    return n


@tool(effect="idempotent")
def refund(n: int) -> int:
    """Refund."""
    return n


@pytest.fixture(autouse=True)
def _fresh() -> None:
    PAID.clear()


CONTINUES = {"on_error": "continue"}
PAUSE = node("wait", "WAIT", seconds=0.01)


def paying(n: Any, more: dict[str, Any] | None = None, node_id: str = "pay") -> dict[str, Any]:
    return node(node_id, "FUNCTION", more, tool="pay", arguments={"n": n})


def undone(**arguments: Any) -> dict[str, Any]:
    return {"compensate": {"tool": "refund", "arguments": arguments}}


AFTER_ITS_CALL = {
    "arguments": node(
        "n", "FUNCTION", {**undone(n="{{ result.missing }}"), **CONTINUES}, tool="refund", arguments={"n": 1}
    ),
    "mapping": node("n", "SUB_WORKFLOW", CONTINUES, workflow="inner", input={}, output="{{ result.missing }}"),
    "router": node("n", "CHOICE_LLM", {"on_error": "branch"}, prompt="Which?", choices=["left"]),
}


@pytest.mark.parity
@pytest.mark.parametrize("behind", range(7))
@pytest.mark.parametrize("kind", AFTER_ITS_CALL)
def test_a_node_that_fails_behind_its_call_has_failed_for_later_owners_too(
    kit: AgentKit, losses: Losses, kind: str, behind: int
) -> None:
    kit.model.respond = lambda _: Turn(text=["right"])
    kit.workflow("inner", **chain(node("t", "TRANSFORM", output=1)))
    flow = chain(AFTER_ITS_CALL[kind], PAUSE, node("t", "TRANSFORM", output="{{ nodes.n }}"))
    if kind == "router":
        flow["edges"][1]["source_handle"] = "error"
        flow["edges"] += edges("n end branch-0")
    losses.begin(kit, frozenset({behind}))
    kit.workflow(tools=[refund], **flow)

    end = kit.start().result(5)

    assert end.output["error"]["code"] == ("no_branch" if kind == "router" else "expression_failed")


@pytest.mark.parametrize("behind", [None, *range(1, 5)])
def test_a_failed_node_has_the_same_error_for_each_owner(kit: AgentKit, losses: Losses, behind: int | None) -> None:
    report = node("report", "TRANSFORM", output="{{ nodes.pay.error }}")
    kit.workflow(tools=[pay], **chain(paying(7, CONTINUES), PAUSE, report))
    losses.begin(kit, frozenset({behind}) if behind is not None else frozenset())

    assert kit.start().result(5).output == {"code": "tool_failed", "message": "ValueError: the bank is closed"}


@pytest.mark.parametrize("behind", [None, *range(1, 5)])
def test_a_blueprint_catches_the_same_error_each_time(kit: AgentKit, losses: Losses, behind: int | None) -> None:
    kit.workflow(tools=[pay], blueprint=f"{blueprints.__name__}:CatchingBlueprint")
    losses.begin(kit, frozenset({behind}) if behind is not None else frozenset())

    assert kit.start().result(5).output == ["tool_failed", "ValueError: the bank is closed"]


@pytest.mark.parity
@pytest.mark.parametrize("behind", [None, *range(10)])
def test_an_owner_that_is_lost_between_two_attempts_makes_the_attempts_that_are_left(
    kit: AgentKit, losses: Losses, behind: int | None
) -> None:
    busy = [Turn(error=ModelFailed("busy", retry_after_s=after_s)) for after_s in (0.01, 0.01, 0.3)]
    turns = iter([*busy, *[Turn(text=["hello"])] * 9])
    kit.model.respond = lambda _: next(turns)
    nodes = [START, node("ask", "LLM", {"retry": 1}, prompt="Hi"), *(PAUSE | {"id": f"w{n}"} for n in range(6)), END]
    pairs = edges("start ask", "ask end", "start w0", *(f"w{n} w{n + 1}" for n in range(5)), "w5 end")
    kit.workflow(nodes=nodes, edges=pairs)
    losses.begin(kit, frozenset({behind}) if behind is not None else frozenset())

    end = kit.start().result(5)

    assert (end.status, end.output["ask"]) == ("succeeded", "hello")


@pytest.mark.parity
def test_more_nodes_than_an_end_names_hide_none_that_nothing_undoes(kit: AgentKit) -> None:
    each = node("each", "FOR_EACH", items="{{ input.items }}", at_once=50)
    item = node("item", "FUNCTION", undone(n=1), tool="refund", arguments={"n": "{{ item }}"})
    nodes = [START, each, item, paying(3), paying(7, node_id="bad"), END]
    pairs = edges("start each", "each item foreach-body", "each pay", "pay bad", "bad end")
    kit.workflow(tools=[pay, refund], nodes=nodes, edges=pairs)

    end = kit.start("flow", {"items": list(range(101))}).result(20)

    assert [left["node"] for left in end.not_undone or ()] == ["pay"]


@pytest.mark.parametrize("on_unknown", ["fail", "tell_model"])
def test_an_unknown_outcome_is_named_as_not_undone(kit: AgentKit, on_unknown: str) -> None:
    kit.workflow(tools=[pay], on_unknown=on_unknown, **chain(paying(8)))

    (left,) = kit.start().result(5).not_undone or ()

    assert (left["node"], left["tool"]) == ("pay", "pay")
    assert "not known" in left["reason"]


def test_a_batch_that_fails_lets_the_others_end_and_the_runs_end_names_what_they_did(kit: AgentKit) -> None:
    each = node("each", "FOR_EACH", items="{{ input.items }}", spread=2)
    pairs = edges("start each", "each pay foreach-body", "each end")
    kit.workflow(tools=[pay], nodes=[START, each, paying("{{ item }}"), END], edges=pairs)
    handle = kit.start("flow", {"items": [1, 7, 2, 3]})

    end = handle.result(10)

    assert (end.status, end.reason, sorted(PAID)) == ("failed", "tool_failed", [1, 2, 3])
    assert {path: status for path, (status, _) in results(kit, handle).items() if "each" in path} == {
        "each": "failed",
        "each~0": "done",
        "each~2": "done",
        "each/0": "done",
        "each/1": "failed",
        "each/2": "done",
        "each/3": "done",
    }
    assert [left["node"] for left in end.not_undone or ()] == ["each~0", "each~2"]


def test_a_commit_that_fails_is_no_failure_of_its_node(kit: AgentKit, monkeypatch: pytest.MonkeyPatch) -> None:
    kit.workflow(tools=[pay], **chain(paying(1, CONTINUES), paying(2, CONTINUES, "second")))
    faults: Iterator[Fault | None] = iter([None, "damaged", *[None] * 99])
    FaultyCommits(kit.runner.journal.database, monkeypatch, lambda: next(faults))
    handle = kit.start()

    end = handle.result(5)

    assert (end.status, PAID) == ("failed", [1])
    assert results(kit, handle)["pay"] == ("done", 1)
