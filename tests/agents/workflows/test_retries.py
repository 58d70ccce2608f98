"""What the retry of a workflow makes again, and what it asks about: each effect happens once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agents.handle import RunHandle
from agents.models.errors import MODEL_REFUSED
from agents.models.scripted import Call, Turn
from agents.testing import AgentKit
from agents.tools.call_context import current_call
from agents.tools.tool import tool
from bus.journal.clients import Mode, Origin
from tests.agents.workflows.flows import END, START, answer, chain, edges, node, until

CALLS: list[tuple[str, int, str]] = []
"""What was called: the tool's name, its argument and its key."""
BROKEN: set[int] = set()
SLOW: set[int] = set()
FAULTY: set[int] = set()
"""What ``check`` refuses besides."""


def _called(name: str, n: int) -> int:
    CALLS.append((name, n, current_call().idempotency_key))
    if n in BROKEN:
        raise ValueError("the bank is closed")
    return n


@tool(effect="unsafe", timeout_s=0.3)
async def pay(n: int) -> int:
    """Pay."""
    _called("pay", n)
    if n in SLOW:
        await asyncio.sleep(5)
    return n


@tool(effect="keyed", timeout_s=0.3, retries=0)
async def charge(n: int) -> int:
    """Charge."""
    _called("charge", n)
    if n in SLOW:
        await asyncio.sleep(5)
    return n


@tool(effect="unsafe", retries=0)
def refund(n: int) -> int:
    """Refund."""
    return _called("refund", n)


@tool(effect="pure")
def check(n: int) -> int:
    """Fail while something is broken."""
    if n in BROKEN | FAULTY:
        raise ValueError("it is broken")
    return n


TOOLS = [pay, charge, refund, check]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    for state in (CALLS, BROKEN, SLOW, FAULTY):
        state.clear()


def call(name: str, n: Any = 1, more: dict[str, Any] | None = None, node_id: str | None = None) -> dict[str, Any]:
    return node(node_id or name, "FUNCTION", more, tool=name, arguments={"n": n})


def failed(kit: AgentKit, *nodes: dict[str, Any], **more: Any) -> RunHandle:
    """Return a run of these nodes that has failed; nothing is broken or slow any more."""
    kit.workflow(tools=TOOLS, **(more or chain(*nodes)))
    handle = kit.start()
    if SLOW:
        answer(handle, "fail")
    assert handle.result(5).status == "failed"
    BROKEN.clear()
    SLOW.clear()
    return handle


def retried(kit: AgentKit, handle: RunHandle, mode: Mode = "recorded") -> RunHandle:
    return kit.runner.repeat(Origin(run_id=handle.run_id, kind="retry", mode=mode), kit.runner.principal)


def test_a_failed_unsafe_call_is_made_again_once_a_person_approves(kit: AgentKit) -> None:
    BROKEN.add(1)
    again = retried(kit, failed(kit, call("pay")))
    until(again, "waiting")

    assert len(CALLS) == 1
    assert "it failed" in again.approvals()[0]["reason"]
    answer(again, "approve")
    assert again.result(5).output == 1
    assert len(CALLS) == 2


def test_a_retry_that_is_live_asks_nothing(kit: AgentKit) -> None:
    BROKEN.add(1)

    assert retried(kit, failed(kit, call("pay")), "live").result(5).output == 1


@pytest.mark.parametrize("mode", ["recorded", "live"])
@pytest.mark.parametrize("state", [BROKEN, SLOW])
def test_a_keyed_call_is_made_again_with_its_key(kit: AgentKit, state: set[int], mode: Mode) -> None:
    state.add(1)
    handle = failed(kit, call("charge"))

    assert retried(kit, handle, mode).result(5).output == 1

    assert len({key for _, _, key in CALLS}) == 1
    assert len(CALLS) > 1


@pytest.mark.parametrize("decision", ["take_as_done", "run_again"])
def test_an_unknown_call_of_the_earlier_run_is_asked_about(kit: AgentKit, decision: str) -> None:
    SLOW.add(1)
    again = retried(kit, failed(kit, call("pay")))
    until(again, "waiting")
    assert len(CALLS) == 1
    answer(again, decision)

    assert again.result(5).status == "succeeded"
    assert len({key for _, _, key in CALLS}) == 1
    assert len(CALLS) == 1 + (decision == "run_again")


def test_what_was_done_behind_a_failed_node_is_taken_from_the_record_or_asked_about(kit: AgentKit) -> None:
    BROKEN.update({7, 8})
    first = call("check", 7, {"on_error": "continue"}, "first")
    handle = failed(kit, first, call("pay", 2, node_id="same"), call("check", 8))
    again = retried(kit, handle)

    assert again.result(5).status == "succeeded"
    assert [n for _, n, _ in CALLS] == [2]
    kit.workflow(tools=TOOLS, **chain(first, call("pay", 3, node_id="same"), call("check", 8)))
    BROKEN.add(8)
    other = retried(kit, handle)
    until(other, "waiting")
    assert "with other arguments at 'same' (it was done)" in other.approvals()[0]["reason"]
    answer(other, "reject")
    assert other.result(5).status == "failed"
    assert [n for _, n, _ in CALLS] == [2]


def test_a_node_that_was_renamed_does_not_repeat_its_call_unasked(kit: AgentKit) -> None:
    BROKEN.add(1)
    handle = failed(kit, call("pay"))
    kit.workflow(tools=TOOLS, **chain(call("pay", node_id="renamed")))

    again = retried(kit, handle)
    until(again, "waiting")

    assert "this call at 'pay'" in again.approvals()[0]["reason"]
    assert len(CALLS) == 1
    again.cancel()


def test_what_was_undone_is_made_again_with_another_key(kit: AgentKit) -> None:
    BROKEN.add(9)
    undone = {"compensate": {"tool": "refund", "arguments": {"n": "{{ result }}"}}}
    handle = failed(kit, call("charge", 1, undone), call("check", 9))
    assert [name for name, _, _ in CALLS] == ["charge", "refund"]

    assert retried(kit, handle).result(5).status == "succeeded"

    assert [name for name, _, _ in CALLS] == ["charge", "refund", "charge"]
    assert CALLS[0][2] != CALLS[2][2]


def test_what_could_not_be_undone_is_not_undone_by_a_retry_either_and_its_end_says_why(kit: AgentKit) -> None:
    BROKEN.update({5, 9})
    undone = {"compensate": {"tool": "refund", "arguments": {"n": 5}}}
    kit.workflow(tools=TOOLS, **chain(call("charge", 1, undone), call("check", 9)))
    handle = kit.start()
    answer(handle, "fail")
    assert handle.result(5).status == "failed"

    end = retried(kit, handle).result(5)

    assert [name for name, _, _ in CALLS] == ["charge", "refund"]
    (left,) = end.not_undone or ()
    assert (left["node"], left["tool"]) == ("charge", "refund")
    assert "no call that undoes it" not in left["reason"]


@pytest.mark.parametrize("mode", ["recorded", "live"])
def test_a_sub_workflow_is_retried_from_where_it_failed(kit: AgentKit, mode: Mode) -> None:
    kit.workflow("inner", tools=TOOLS, **chain(call("pay", 1), call("check", "{{ input.n }}")))
    outer = chain(node("sub", "SUB_WORKFLOW", workflow="inner", input={"n": 4}), call("check", 5))
    kit.workflow(tools=TOOLS, **outer)
    BROKEN.add(4)
    handle = kit.start()
    assert handle.result(5).status == "failed"
    BROKEN.clear()

    assert retried(kit, handle, mode).result(5).status == "succeeded"

    assert len(CALLS) == (1 if mode == "recorded" else 2)


def test_an_agent_that_failed_keeps_what_its_calls_did(kit: AgentKit) -> None:
    turns = iter(
        [Turn(calls=[Call(name="pay", arguments={"n": 1})]), Turn(error=MODEL_REFUSED("no")), Turn(text=["Paid."])]
    )
    kit.agent("payer", tools=[pay])
    kit.model.respond = lambda _: next(turns)
    kit.workflow(tools=[], **chain(node("ask", "FUNCTION", tool="agent:payer", arguments={"message": "Pay."})))
    handle = kit.start()
    assert handle.result(5).status == "failed"

    assert retried(kit, handle).result(5).output == "Paid."

    assert len(CALLS) == 1


BODY = edges("start each", "each pay foreach-body", "pay check", "each end")


@pytest.mark.parametrize(("on_item_error", "status"), [("fail", "failed"), ("collect", "succeeded")])
@pytest.mark.parametrize("spread", [0, 2])
def test_what_an_item_has_done_before_it_failed_is_not_done_again(
    kit: AgentKit, on_item_error: str, status: str, spread: int
) -> None:
    each = node("each", "FOR_EACH", items="{{ input.items }}", on_item_error=on_item_error, at_once=1, spread=spread)
    nodes = [START, each, call("pay", "{{ item }}"), call("check", "{{ item }}"), END]
    kit.workflow(tools=TOOLS, nodes=nodes, edges=BODY)
    FAULTY.add(5)
    handle = kit.start("flow", {"items": [1, 2, 3, 14, 5, 6]})
    assert handle.result(5).status == status
    FAULTY.clear()

    again = kit.runner.repeat(
        Origin(run_id=handle.run_id, kind="retry", items_only=on_item_error == "collect"), kit.runner.principal
    )

    assert again.result(5).output == [1, 2, 3, 14, 5, 6]
    assert sorted(n for _, n, _ in CALLS) == [1, 2, 3, 5, 6, 14]


def test_a_batch_of_a_retry_has_items_of_one_earlier_batch(kit: AgentKit) -> None:
    each = node("each", "FOR_EACH", items="{{ input.items }}", on_item_error="collect", spread=2)
    nodes = [START, each, call("pay", "{{ item }}"), call("check", "{{ item }}"), END]
    kit.workflow(tools=TOOLS, nodes=nodes, edges=BODY)
    FAULTY.update({2, 3})
    handle = kit.start("flow", {"items": [1, 2, 3, 4]})
    assert handle.result(5).status == "succeeded"
    FAULTY.clear()

    again = kit.runner.repeat(Origin(run_id=handle.run_id, kind="retry", items_only=True), kit.runner.principal)

    assert again.result(5).output == [1, 2, 3, 4]
    assert sorted(n for _, n, _ in CALLS) == [1, 2, 3, 4]
