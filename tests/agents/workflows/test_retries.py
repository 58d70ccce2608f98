"""What the retry of a workflow makes again, and what it asks about: each effect happens once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agents.handle import RunHandle
from agents.models.errors import MODEL_REFUSED
from agents.models.scripted import Call, Turn
from agents.testing import AgentKit
from agents.tools.call_context import current_call
from agents.tools.tool import tool
from bus.journal.clients import Mode, Origin
from config.errors import CallboardError
from tests.agents.workflows.conftest import Losses
from tests.agents.workflows.flows import END, START, answer, chain, edges, labels, node, states, until, wait_until

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
    assert "made this call, and it is not known" in again.approvals()[0]["reason"]
    answer(again, decision)

    assert again.result(5).status == "succeeded"
    assert len({key for _, _, key in CALLS}) == 1
    assert len(CALLS) == 1 + (decision == "run_again")


def test_what_was_done_behind_a_failed_node_is_taken_from_the_record_or_asked_about(kit: AgentKit) -> None:
    BROKEN.update({7, 8})
    first = call("check", 7, {"on_error": "continue"}, "first")
    handle = failed(kit, first, call("pay", 2, node_id="same"), call("check", 8))

    assert retried(kit, handle).result(5).status == "succeeded"
    assert [n for _, n, _ in CALLS] == [2]
    BROKEN.update({7, 8})
    handle = failed(kit, first, call("pay", 2, node_id="same"), call("check", 8))
    kit.workflow(tools=TOOLS, **chain(first, call("pay", 3, node_id="same"), call("check", 8)))
    other = retried(kit, handle)
    until(other, "waiting")
    assert "with other arguments at 'same' (it was done)" in other.approvals()[0]["reason"]
    answer(other, "reject")
    assert other.result(5).status == "failed"
    assert [n for _, n, _ in CALLS] == [2, 2]


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


def waiting_with(kit: AgentKit, handle: RunHandle, count: int) -> None:
    """Return when a run waits for a person, with so many calls made; then stop it."""
    until(handle, "waiting")
    questions, calls = len(handle.approvals()), len(CALLS)
    handle.cancel()
    handle.result(5)
    assert (questions, calls) == (1, count)


def test_a_question_of_a_retry_outlives_what_else_resumes_it(kit: AgentKit) -> None:
    BROKEN.add(1)
    nodes = [START, call("pay"), node("w", "WAIT", signal="go"), END]
    again = retried(kit, failed(kit, nodes=nodes, edges=edges("start pay", "start w", "pay end")))
    until(again, "waiting")

    kit.runner.signal(again.run_id, "go", None)

    wait_until(lambda: states(kit, again)["w"] == "done", "the signal was not taken")
    waiting_with(kit, again, 1)


@pytest.mark.parity
@pytest.mark.parametrize("behind", range(6))
def test_a_result_that_is_taken_from_the_record_survives_a_loss(kit: AgentKit, losses: Losses, behind: int) -> None:
    BROKEN.update({7, 8})
    first = call("check", 7, {"on_error": "continue"}, "first")
    handle = failed(kit, first, call("pay", 2, node_id="same"), call("check", 8))
    losses.begin(kit, frozenset({behind}))

    assert retried(kit, handle).result(5).status == "succeeded"

    assert [n for _, n, _ in CALLS] == [2]


def test_the_retry_of_a_retry_continues_the_child_run_of_a_copied_step(kit: AgentKit) -> None:
    kit.workflow("inner", tools=TOOLS, **chain(call("pay", 1)))

    def write(number: int) -> None:
        sub = node("sub", "SUB_WORKFLOW", workflow="inner", input={"n": "{{ nodes.t }}"})
        kit.workflow(tools=TOOLS, **chain(node("t", "TRANSFORM", output=number), sub, call("check", 5)))

    write(1)
    FAULTY.add(5)
    first = kit.start()
    assert first.result(5).status == "failed"
    second = retried(kit, first)
    assert second.result(5).status == "failed"
    FAULTY.clear()
    write(2)

    assert retried(kit, second).result(5).status == "succeeded"

    assert len(CALLS) == 1


def test_a_node_that_was_renamed_after_it_was_done_does_not_repeat_its_call_unasked(kit: AgentKit) -> None:
    FAULTY.add(9)
    handle = failed(kit, call("pay"), call("check", 9))
    FAULTY.clear()
    kit.workflow(tools=TOOLS, **chain(call("pay", node_id="renamed"), call("check", 9)))

    waiting_with(kit, retried(kit, handle), 1)


def test_what_a_node_did_that_the_file_no_longer_has_is_undone_all_the_same(kit: AgentKit) -> None:
    undone = {"compensate": {"tool": "refund", "arguments": {"n": "{{ result }}"}}}
    each = node("each", "FOR_EACH", items=[8], on_item_error="collect")
    pairs = "each item foreach-body", "each last", "last end"
    item, last = call("check", "{{ item }}", node_id="item"), call("check", 9, node_id="last")
    nodes = [START, call("charge", 1, undone), each, item, last, END]
    kit.workflow(tools=TOOLS, nodes=nodes, edges=edges("start charge", "charge each", *pairs))
    FAULTY.add(8)
    handle = kit.start()
    assert handle.result(5).status == "succeeded"
    kit.workflow(
        tools=TOOLS, nodes=[START, each, item, call("check", 8, node_id="last"), END], edges=edges("start each", *pairs)
    )

    origin = Origin(run_id=handle.run_id, kind="retry", items_only=True)
    end = kit.runner.repeat(origin, kit.runner.principal).result(5)

    assert (end.status, end.not_undone) == ("failed", None)
    assert [name for name, _, _ in CALLS] == ["charge", "refund"]


def test_a_keyed_call_that_the_policy_rewrites_keeps_its_key(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    rule = "{name: two, verdict: constrain, reason: Two., when: {tools: [charge]}, arguments: {n: 2}}"
    policy.write_text(f"rules: [{rule}]")
    with AgentKit(settings={"policy": str(policy)}) as kit:
        BROKEN.add(2)

        assert retried(kit, failed(kit, call("charge", 5))).result(5).output == 2

        assert len({key for _, _, key in CALLS}) == 1


def test_a_result_from_the_record_has_the_labels_that_it_had(kit: AgentKit) -> None:
    kit.model.respond = lambda _: Turn(text=["hello"])
    kit.workflow("inner", **chain(node("ask", "LLM", prompt="Hi")))
    FAULTY.update({7, 8})
    first = call("check", 7, {"on_error": "continue"}, "first")
    sub = node("sub", "SUB_WORKFLOW", workflow="inner", input={})
    again = retried(kit, failed(kit, first, sub, call("check", 8)))
    again.result(5)

    assert labels(kit, again)["sub"] == ["model"]


def test_a_harmless_call_in_between_hides_no_earlier_one(kit: AgentKit) -> None:
    BROKEN.add(1)
    first = failed(kit, call("pay", 1, node_id="x"))
    kit.workflow(tools=TOOLS, **chain(call("check", 9, node_id="x")))
    FAULTY.add(9)
    second = retried(kit, first)
    assert second.result(5).status == "failed"
    kit.workflow(tools=TOOLS, **chain(call("pay", 1, node_id="x")))

    waiting_with(kit, retried(kit, second), 1)


def test_an_answer_that_was_repaired_is_taken_from_the_record(kit: AgentKit) -> None:
    turns = iter([Turn(text=[text]) for text in ("no json", '{"a": 1}', '{"a": 2}')])
    kit.model.respond = lambda _: next(turns)
    FAULTY.add(9)
    ask = node("ask", "LLM", prompt="Hi", output_schema={"type": "object", "required": ["a"]})
    handle = failed(kit, ask, call("check", 9), node("t", "TRANSFORM", output="{{ nodes.ask }}"))
    FAULTY.clear()

    assert retried(kit, handle).result(5).output == {"a": 1}


def test_a_run_is_retried_once_and_then_its_retry_is(kit: AgentKit) -> None:
    FAULTY.add(9)
    handle = failed(kit, call("check", 9), call("pay"))
    FAULTY.clear()
    again = retried(kit, handle)
    assert again.result(5).status == "succeeded"

    with pytest.raises(CallboardError, match=f"was retried as '{again.run_id}', which is succeeded"):
        retried(kit, handle)

    assert len(CALLS) == 1
    assert retried(kit, handle, "live").result(5).status == "succeeded"


# --- calls that undo, and effects of nodes that a retry does not come to


def undone_by(n: int) -> dict[str, Any]:
    return {"compensate": {"tool": "refund", "arguments": {"n": n}}}


TWICE = chain(call("charge", 1, undone_by(5), "a"), call("charge", 2, undone_by(6), "b"), call("check", 9))


def half_undone(kit: AgentKit) -> RunHandle:
    """Return a run that has failed, has undone ``a``, and could not undo ``b``."""
    BROKEN.update({6, 9})
    kit.workflow(tools=TOOLS, **TWICE)
    handle = kit.start()
    answer(handle, "fail")
    assert [entry["node"] for entry in handle.result(5).not_undone or []] == ["b"]
    return handle


@pytest.mark.parametrize("decision", ["take_as_done", "fail"])
def test_a_call_that_undoes_and_whose_outcome_is_unknown_is_asked_about(kit: AgentKit, decision: str) -> None:
    handle = half_undone(kit)

    again = retried(kit, handle)
    answer(again, decision, "b~compensate")

    end = again.result(5)
    assert [n for name, n, _ in CALLS if name == "refund"] == [6, 5, 5]
    assert [entry["node"] for entry in end.not_undone or []] == (["b"] if decision == "fail" else [])


def test_the_end_of_a_retry_names_what_an_earlier_run_did_that_it_has_not_come_to(kit: AgentKit) -> None:
    handle = half_undone(kit)
    BROKEN.add(1)

    again = retried(kit, handle)
    if again.status() == "waiting":
        answer(again, "fail")

    [left] = again.result(5).not_undone or []
    assert (left["node"], left["tool"]) == ("b", "charge")
    assert f"the run {handle.run_id} made it" in left["reason"]


def test_a_retry_that_takes_the_other_branch_names_what_the_first_one_did(kit: AgentKit) -> None:
    pairs = "start charge", "charge refund error", "charge pay", "refund check", "pay check", "check end"
    nodes = [START, call("charge", 1, {"on_error": "branch"}), call("refund", 7), call("pay", 8), call("check", 9), END]
    BROKEN.update({1, 9})

    end = retried(kit, failed(kit, nodes=nodes, edges=edges(*pairs))).result(5)

    assert (end.status, [entry["node"] for entry in end.not_undone or []]) == ("succeeded", ["refund"])


def items_again(kit: AgentKit, handle: RunHandle) -> RunHandle:
    return kit.runner.repeat(Origin(run_id=handle.run_id, kind="retry", items_only=True), kit.runner.principal)


def test_an_item_that_came_to_its_end_by_its_error_is_no_failed_item(kit: AgentKit) -> None:
    each = node("each", "FOR_EACH", items=[1, 2, 3], on_item_error="collect")
    first = call("check", "{{ item }}", {"on_error": "branch"}, "try")
    nodes = [START, each, first, call("refund", "{{ item }}"), call("pay", "{{ item + 10 }}"), END]
    pairs = "start each", "each try foreach-body", "try refund error", "try pay", "each end"
    kit.workflow(tools=TOOLS, nodes=nodes, edges=edges(*pairs))
    FAULTY.add(2)
    BROKEN.add(13)
    handle = kit.start()
    assert handle.result(5).status == "succeeded"
    FAULTY.clear()
    BROKEN.clear()

    again = items_again(kit, handle)
    answer(again, "approve")

    assert again.result(5).status == "succeeded"
    assert sorted((name, n) for name, n, _ in CALLS) == [("pay", 11), ("pay", 13), ("pay", 13), ("refund", 2)]


def test_failed_items_of_a_workflow_that_was_called_are_not_passed_over_in_silence(kit: AgentKit) -> None:
    each = node("each", "FOR_EACH", items=[1, 2], on_item_error="collect")
    nodes = [START, each, call("check", "{{ item }}"), END]
    kit.workflow("inner", tools=TOOLS, nodes=nodes, edges=edges("start each", "each check foreach-body", "each end"))
    kit.workflow(tools=TOOLS, **chain(node("sub", "SUB_WORKFLOW", workflow="inner", input={})))
    FAULTY.add(2)
    handle = kit.start()
    assert handle.result(5).status == "succeeded"

    with pytest.raises(CallboardError, match=r"no item of run .* has failed") as refusal:
        items_again(kit, handle)

    assert refusal.value.code == "run_not_repeatable"


@pytest.mark.parametrize("spread", [0, 1])
def test_a_node_that_was_added_to_a_body_is_carried_out_for_each_item(kit: AgentKit, spread: int) -> None:
    each = node("each", "FOR_EACH", items=[1, 2], at_once=1, spread=spread)
    nodes = [START, each, call("pay", "{{ item }}"), call("check", "{{ item }}"), END]
    pairs = "start each", "each pay foreach-body", "pay check", "each end"
    FAULTY.add(2)
    handle = failed(kit, nodes=nodes, edges=edges(*pairs))
    FAULTY.clear()
    added = [*nodes[:-1], call("charge", "{{ item }}"), END]

    kit.workflow(tools=TOOLS, nodes=added, edges=edges(*pairs, "check charge"))

    assert retried(kit, handle).result(5).output == [1, 2]
    assert sorted((name, n) for name, n, _ in CALLS) == [("charge", 1), ("charge", 2), ("pay", 1), ("pay", 2)]
