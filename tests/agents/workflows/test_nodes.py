"""What each type of node does, beyond what the random graphs show."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from sqlalchemy import select

from agents.errors import SIGNAL_INVALID, SIGNAL_UNKNOWN
from agents.mailbox.inbox import Inbox
from agents.models.errors import ModelFailed
from agents.models.scripted import Turn
from agents.testing import AgentKit
from agents.tools.tool import tool
from agents.workflows.nodes import filter as filtering
from agents.workflows.nodes import reduce as reducing
from bus.journal.approvals import Decision
from bus.journal.errors import CONTROL_REFUSED
from bus.payloads import ControlPayload, ErrorPayload, NodePayload, TextPayload
from config.database.tables import approvals
from config.errors import CallboardError
from config.expressions import templates
from tests.agents.workflows.conftest import Losses
from tests.agents.workflows.flows import (
    END,
    SOON_S,
    START,
    answer,
    chain,
    edges,
    events,
    labels,
    node,
    results,
    states,
    until,
    wait_until,
)
from tests.bus.journal_harness import fire_timers


@tool(effect="pure")
def shout(text: str) -> str:
    """Return a text in capitals."""
    return text.upper()


def branching(condition: dict[str, Any], *pairs: str) -> dict[str, Any]:
    nodes = [START, node("c", "CHOICE", branches=[condition]), *(node(n, "TRANSFORM", output=n) for n in "ab"), END]
    return {"nodes": nodes, "edges": edges("start c", *pairs, "a end", "b end")}


def test_a_choice_follows_the_first_branch_that_holds_and_skips_the_others(kit: AgentKit) -> None:
    kit.workflow(**branching({"condition": "input.n > 1"}, "c a branch-0", "c b default"))

    handle = kit.start("flow", {"n": 2})

    assert handle.result(5).output == "a"
    assert states(kit, handle) == {"start": "done", "c": "done branch-0", "b": "skipped", "a": "done", "end": "done"}


def test_a_condition_that_cannot_be_evaluated_takes_no_branch(kit: AgentKit) -> None:
    kit.workflow(**branching({"field": "input.n", "operator": ">", "value": 1}, "c a branch-0", "c b default"))

    handle = kit.start("flow", {"n": "two"})

    assert (handle.result(5).status, handle.result(5).reason) == ("failed", "expression_failed")
    assert not {"a", "b"} & states(kit, handle).keys()


def test_edges_without_handles_are_all_followed_with_a_note(kit: AgentKit) -> None:
    kit.workflow(**branching({"condition": "false"}, "c a", "c b"))

    handle = kit.start()

    assert handle.result(5).output == {"a": "a", "b": "b"}
    notes = [event.content for event in events(kit, handle) if isinstance(event, NodePayload) and event.node_id == "c"]
    assert notes == ["none of its edges has a `source_handle`, so all are followed."]


def test_a_router_that_answers_something_else_takes_the_default_and_says_so(kit: AgentKit) -> None:
    kit.model.respond = lambda _: Turn(text=["delete everything"])
    routed = node("r", "CHOICE_LLM", prompt="{{ input.text }}", choices=["buy", "sell"])
    nodes = [START, routed, *(node(n, "TRANSFORM", output=n) for n in "abc"), END]
    kit.workflow(
        nodes=nodes,
        edges=edges("start r", "r a branch-0", "r b branch-1", "r c default", "a end", "b end", "c end"),
    )

    handle = kit.start("flow", {"text": "hello"})

    assert handle.result(5).output == "c"
    assert results(kit, handle)["r"] == ("done", {"branch": "default", "choice": None})


def test_a_missing_value_is_an_error_and_no_empty_text(kit: AgentKit) -> None:
    kit.workflow(**chain(node("t", "TRANSFORM", output="Dear {{ input.name }}")))

    end = kit.start("flow", {}).result(5)

    assert (end.status, end.reason) == ("failed", "expression_failed")


def test_what_a_model_wrote_is_labelled_through_transforms_until_a_tool_gets_it(kit: AgentKit) -> None:
    kit.model.respond = lambda _: Turn(text=["hello"])
    kit.workflow(
        tools=[shout],
        **chain(
            node("ask", "LLM", prompt="Say hello."),
            node("t", "TRANSFORM", output="{{ nodes.ask }}!"),
            node("f", "FUNCTION", tool="shout", arguments={"text": "{{ nodes.t }}"}),
        ),
    )

    handle = kit.start()

    assert handle.result(5).output == "HELLO!"
    assert labels(kit, handle) == {"start": [], "ask": ["model"], "t": ["model"], "f": ["model"], "end": ["model"]}


def test_a_node_that_may_fail_gives_its_error_or_leads_elsewhere(kit: AgentKit) -> None:
    failing = node("t", "TRANSFORM", {"on_error": "continue"}, output="{{ input.missing }}")
    kit.workflow("continues", **chain(failing))
    other = node("t", "TRANSFORM", {"on_error": "branch"}, output="{{ input.missing }}")
    kit.workflow(
        "branches",
        nodes=[START, other, node("a", "TRANSFORM", output="a"), END],
        edges=edges("start t", "t end", "t a error", "a end"),
    )

    assert kit.start("continues").result(5).output["error"]["code"] == "expression_failed"
    assert kit.start("branches").result(5).output == "a"


@pytest.mark.parity
def test_a_model_is_asked_again_as_often_as_its_node_says(kit: AgentKit) -> None:
    answers = iter([Turn(error=ModelFailed("busy")) for _ in range(3)] + [Turn(text=["done"])])
    kit.model.respond = lambda _: next(answers)
    kit.workflow(**chain(node("ask", "LLM", {"retry": 1}, prompt="Say hello.")))

    handle = kit.start()

    assert handle.result(20).output == "done"
    attempts = [e.attempt for e in events(kit, handle) if isinstance(e, NodePayload) and e.status == "started"]
    assert attempts == [None, 2]


def test_a_models_answer_is_streamed_without_tools_and_is_data_with_a_schema(kit: AgentKit) -> None:
    kit.model.script(Turn(text=['{"a":', " 1}"]))
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    kit.workflow(**chain(node("ask", "LLM", prompt="Say it.", output_schema=schema)))
    handle = kit.start()

    assert handle.result(5).output == {"a": 1}

    assert not kit.model.requests[0].tools
    assert "".join(event.content for event in events(kit, handle) if isinstance(event, TextPayload)) == '{"a": 1}'


# --- signals


WAITING = chain(node("w", "WAIT", signal="paid", schema={"type": "object", "required": ["amount"]}))


def test_a_signal_ends_the_wait_with_its_data(kit: AgentKit) -> None:
    kit.workflow(**WAITING)
    handle = kit.start()
    until(handle, "waiting")

    kit.runner.signal(handle.run_id, "paid", {"amount": 3})

    assert handle.result(5).output == {"amount": 3}
    controls = [(e.verb, e.state, e.content) for e in events(kit, handle) if isinstance(e, ControlPayload)]
    assert controls == [("signal", "accepted", "paid"), ("signal", "consumed", "paid")]


def test_a_signal_before_its_wait_is_kept_for_it(kit: AgentKit) -> None:
    gate = node("gate", "APPROVAL_GATE", message="Go?")
    kit.workflow(**chain(gate, *WAITING["nodes"][1:-1]))
    handle = kit.start()
    until(handle, "waiting")
    kit.runner.signal(handle.run_id, "paid", {"amount": 3})

    answer(handle, "approve")

    assert handle.result(5).output == {"amount": 3}


@pytest.mark.parametrize(
    ("name", "data", "code"),
    [
        ("piad", {"amount": 3}, SIGNAL_UNKNOWN.code),
        ("paid", {}, SIGNAL_INVALID.code),
        ("paid-0", {"amount": 3}, SIGNAL_UNKNOWN.code),
    ],
)
def test_a_signal_of_another_name_or_form_is_refused(kit: AgentKit, name: str, data: Any, code: str) -> None:
    kit.workflow(**WAITING)
    handle = kit.start()
    until(handle, "waiting")

    with pytest.raises(CallboardError) as caught:
        kit.runner.signal(handle.run_id, name, data)

    assert caught.value.code == code
    handle.cancel()


def test_a_signal_is_taken_once(kit: AgentKit) -> None:
    kit.workflow(**chain(*WAITING["nodes"][1:-1], node("gate", "APPROVAL_GATE", message="Go?")))
    handle = kit.start()
    until(handle, "waiting")
    kit.runner.signal(handle.run_id, "paid", {"amount": 3})

    with pytest.raises(CallboardError) as caught:
        kit.runner.signal(handle.run_id, "paid", {"amount": 4})

    assert caught.value.code == CONTROL_REFUSED.code
    handle.cancel()


def test_an_agents_run_takes_no_signal(kit: AgentKit) -> None:
    kit.model.respond = lambda _: Turn(stall_after=0)
    handle = kit.run()

    with pytest.raises(CallboardError, match="waits for no signal"):
        kit.runner.signal(handle.run_id, "paid", None)

    handle.cancel()


def test_each_item_of_a_list_has_a_signal_of_its_own(kit: AgentKit) -> None:
    nodes = [START, node("each", "FOR_EACH", items=["a", "b"]), node("w", "WAIT", signal="paid"), END]
    kit.workflow(nodes=nodes, edges=edges("start each", "each w foreach-body", "each end"))
    handle = kit.start()
    until(handle, "waiting")
    row = kit.runner.journal.readers.runs.row(kit.runner.principal, handle.run_id)
    commands = [f"`./callboard signal {row.id} paid-{index}`" for index in (0, 1)]
    ends = [f"at 'each/{index}/w' for the signal 'paid-{index}' ({commands[index]})" for index in (0, 1)]
    assert row.detail == f"Waits {', '.join(ends)}."

    for name in ("paid", "paid-01", "paid-0-0", "paid-\N{ARABIC-INDIC DIGIT ONE}"):
        with pytest.raises(CallboardError, match="Its signals: 'paid-INDEX'"):
            kit.runner.signal(handle.run_id, name, "none")
    for name, data in (("paid-1", "second"), ("paid-0", "first")):
        kit.runner.signal(handle.run_id, name, data)

    assert handle.result(5).output == ["first", "second"]


def test_a_signal_that_comes_while_the_owner_leaves_is_taken(kit: AgentKit, monkeypatch: pytest.MonkeyPatch) -> None:
    departure, leaves = Inbox.departure, threading.Event()

    async def late(inbox: Inbox) -> Any:
        leaves.set()
        while not inbox.unread:
            await asyncio.sleep(0.001)
        return await departure(inbox)

    monkeypatch.setattr(Inbox, "departure", late)
    kit.workflow(**chain(node("w", "WAIT", signal="paid")))
    handle = kit.start()

    leaves.wait(5)
    kit.runner.signal(handle.run_id, "paid", 4)

    assert handle.result(5).output == 4


def test_a_signal_that_does_not_come_in_time_fails_its_node(kit: AgentKit) -> None:
    kit.workflow(**chain(node("w", "WAIT", {"timeout_s": 0.05}, signal="paid")))

    end = kit.start().result(5)

    assert (end.status, end.reason) == ("failed", "signal_missed")


# --- branches


@pytest.mark.parametrize("behind", [(2, 9, 30), (5, 6, 7)])
def test_twenty_branches_come_to_one_end_with_owners_that_are_lost(
    kit: AgentKit, losses: Losses, behind: tuple[int, ...]
) -> None:
    calls: list[int] = []

    @tool(effect="idempotent")
    def square(n: int) -> int:
        """Square a number."""
        calls.append(n)
        return n * n

    branches = [node(f"b{n}", "FUNCTION", tool="square", arguments={"n": n}) for n in range(20)]
    total = node("t", "TRANSFORM", output=[f"{{{{ nodes.b{n} }}}}" for n in range(20)])
    pairs = [line for n in range(20) for line in (f"p b{n} parallel-{n}", f"b{n} t")]
    kit.workflow(
        tools=[square],
        nodes=[START, node("p", "PARALLEL"), *branches, total, END],
        edges=edges("start p", *pairs, "t end"),
    )
    losses.begin(kit, frozenset(behind))

    assert kit.start().result(10).output == [n * n for n in range(20)]
    assert set(calls) == set(range(20))
    assert len(calls) <= 20 * (1 + len(behind))


# --- data that grow, or are of another kind


TWICE = node("t", "TRANSFORM", output=["{{ input.text }}", "{{ input.text }}"])
GROWING: dict[str, dict[str, Any]] = {
    "a result that is named twice": chain(TWICE),
    "texts put together": chain(node("r", "REDUCE", items=["{{ input.text }}"] * 2, reducer="concat")),
    "results of items": {
        "nodes": [
            START,
            node("each", "FOR_EACH", items=[1, 2, 3]),
            node("t", "TRANSFORM", output="{{ input.text }}"),
            END,
        ],
        "edges": edges("start each", "each t foreach-body", "each end"),
    },
}


@pytest.mark.parametrize("what", GROWING)
def test_data_that_nodes_make_is_bounded(kit: AgentKit, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.setattr(templates, "MAX_DATA", 10_000)
    kit.workflow(**GROWING[what])

    small, large = kit.start("flow", {"text": "x" * 2_000}), kit.start("flow", {"text": "x" * 6_000})

    assert (small.result(5).status, large.result(5).reason) == ("succeeded", "expression_failed")


@pytest.mark.parametrize(("items", "chars"), [(600, 1), (100, 40_000)])
@pytest.mark.parametrize("kind", ["FILTER", "REDUCE"])
def test_a_stopped_run_computes_no_further_item(
    kit: AgentKit, monkeypatch: pytest.MonkeyPatch, kind: str, items: int, chars: int
) -> None:
    """The expression is slow here; as often as it is evaluated is what a stop leaves undone."""
    count, begun = [0], threading.Event()

    def slow(call: Any, function: Any, *arguments: Any) -> Any:
        begun.set()
        count[0] += 1
        time.sleep(0.02)
        return function(*arguments)

    for module in (filtering, reducing):
        monkeypatch.setattr(module, "evaluated", slow)
    config = {"condition": "true"} if kind == "FILTER" else {"expression": "total + item", "initial": 0}
    kit.workflow(**chain(node("x", kind, items="{{ input.items }}", **config)))
    handle = kit.start("flow", {"items": list(range(items)), "text": "x" * chars})
    assert begun.wait(SOON_S)

    handle.cancel()

    assert handle.result(2).status == "cancelled"
    reached = count[0]
    time.sleep(0.2)
    assert count[0] <= reached + 1


@pytest.mark.parametrize("signal", [None, "paid"])
def test_a_time_that_is_null_fails_the_wait(kit: AgentKit, signal: str | None) -> None:
    kit.workflow(**chain(node("w", "WAIT", seconds="{{ input.s }}", signal=signal)))

    handle = kit.start("flow", {"s": None})

    assert handle.result(5).reason == "expression_failed"


@pytest.mark.parametrize("data", [[1], "text", None, 3])
def test_an_input_that_is_no_mapping_fails_the_sub_workflow(kit: AgentKit, data: Any) -> None:
    kit.workflow("inner", **chain(TWICE))
    sub = node("sub", "SUB_WORKFLOW", {"on_error": "continue"}, workflow="inner", input="{{ input.data }}")
    kit.workflow(**chain(sub))

    output = kit.start("flow", {"data": data}).result(5).output

    assert output["error"]["code"] == "expression_failed"
    assert "has to be a mapping, and this is" in output["error"]["message"]


@pytest.mark.parametrize("data", [{1}, 10**30, {2: "x"}])
def test_data_of_a_signal_that_is_no_json_is_refused(kit: AgentKit, data: Any) -> None:
    kit.workflow(**chain(node("w", "WAIT", signal="paid")))
    handle = kit.start()
    until(handle, "waiting")

    with pytest.raises(CallboardError, match="they are no JSON"):
        kit.runner.signal(handle.run_id, "paid", data)

    handle.cancel()


# --- approvals


def test_the_first_of_two_gates_lets_its_branch_continue_before_the_other_is_answered(kit: AgentKit) -> None:
    gates = [node(name, "APPROVAL_GATE", message=f"{name}?") for name in ("a", "b")]
    after = [node(f"{name}2", "TRANSFORM", output=name) for name in ("a", "b")]
    kit.workflow(
        nodes=[START, *gates, *after, END],
        edges=edges("start a", "start b", "a a2", "b b2", "a2 end", "b2 end"),
    )
    handle = kit.start()

    answer(handle, "approve", "b")
    until(handle, "waiting")

    assert states(kit, handle)["b2"] == "done"
    assert "a2" not in states(kit, handle)
    answer(handle, "approve", "a")
    assert handle.result(5).output == {"a2": "a", "b2": "b"}


def test_a_rejected_gate_follows_its_error(kit: AgentKit) -> None:
    gate = node(
        "gate", "APPROVAL_GATE", {"on_error": "branch"}, message="Pay {{ input.n }}?", data={"n": "{{ input.n }}"}
    )
    kit.workflow(
        nodes=[START, gate, node("no", "TRANSFORM", output="no"), END],
        edges=edges("start gate", "gate end", "gate no error", "no end"),
    )
    handle = kit.start("flow", {"n": 3})
    until(handle, "waiting")
    [question] = handle.approvals()
    detail = kit.runner.journal.readers.runs.row(kit.runner.principal, handle.run_id).detail

    answer(handle, "reject")

    assert detail == "A person has to answer: Pay 3?"
    assert question["arguments"] == {"message": "Pay 3?", "data": {"n": 3}}
    assert question["reason"] == "The workflow continues behind 'gate' when a person approves."
    assert handle.result(5).output == "no"


def test_a_rejected_gate_ends_the_run_where_nothing_else_is_drawn(kit: AgentKit) -> None:
    kit.workflow(**chain(node("gate", "APPROVAL_GATE", message="Go?")))
    handle = kit.start()

    answer(handle, "reject")

    assert (handle.result(5).status, handle.result(5).reason) == ("failed", "call_rejected")
    assert [e.code for e in events(kit, handle) if isinstance(e, ErrorPayload)] == ["call_rejected"]


def test_a_gate_that_nobody_answers_in_its_time_fails(kit: AgentKit) -> None:
    kit.workflow(**chain(node("gate", "APPROVAL_GATE", {"timeout_s": 60}, message="Go?")))
    handle = kit.start()
    until(handle, "waiting")
    with kit.runner.journal.database.read() as connection:
        expires_ms = connection.execute(select(approvals.c.expires_ms)).scalar_one()

    fire_timers(kit.runner.journal.database, handle.run_id)

    assert 0 < expires_ms / 1000 - time.time() <= 60
    assert (handle.result(5).status, handle.result(5).reason) == ("failed", "call_rejected")


def test_an_answer_while_the_run_is_at_work_is_taken_behind_the_node(kit: AgentKit) -> None:
    begun, may_end = threading.Event(), threading.Event()

    @tool(effect="pure")
    def slow() -> str:
        """Take as long as the test says."""
        begun.set()
        may_end.wait(SOON_S)
        return "done"

    gates = [node(name, "APPROVAL_GATE", message=f"{name}?") for name in ("a", "b")]
    pairs = edges("start a", "start b", "a work", "work end", "b end")
    kit.workflow(tools=[slow], nodes=[START, *gates, node("work", "FUNCTION", tool="slow"), END], edges=pairs)
    handle = kit.start()
    wait_until(lambda: len(handle.approvals()) == 2, "it asks nothing")
    questions = {question["call_id"]: question["approval_id"] for question in handle.approvals()}
    handle.decide(questions["a"], Decision(decision="approve"))
    begun.wait(SOON_S)

    handle.decide(questions["b"], Decision(decision="approve"))
    may_end.set()

    assert handle.result(5).output["work"] == "done"
