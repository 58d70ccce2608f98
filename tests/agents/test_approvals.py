"""Calls that a person has to approve: made once, with exactly what was approved, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
from sqlalchemy import update

from agents.handle import RunHandle
from agents.steps.stages import CHANGED
from agents.testing import AgentKit, Call, Turn
from agents.tools.tool import tool
from bus.journal.approvals import Decision
from bus.journal.errors import DECISION_REFUSED, EDIT_REFUSED
from bus.journal.ownership.reaper import fire
from bus.journal.readers import steps_of
from bus.payloads import ApprovalPayload, EndPayload, ErrorPayload, ToolResultPayload
from config.database.tables import approvals
from config.identity.principal import Principal
from tests.raising import raises

calls_made: list[tuple[str, int]] = []


@pytest.fixture(autouse=True)
def nothing_made() -> None:
    calls_made.clear()


@tool(effect="unsafe", confirm=True)
def order(item: str, boxes: int = 1) -> str:
    """Order something.

    Args:
        item: what to order.
        boxes: how many boxes.
    """
    calls_made.append((item, boxes))
    return f"ordered {boxes}"


@tool(effect="pure")
def look(item: str) -> str:
    """Look something up.

    Args:
        item: what to look up.
    """
    return f"{item}: in stock"


ORDER = Call(name="order", arguments={"item": "tea", "boxes": 2})


def begin(kit: AgentKit, *calls: Call, tools: tuple[Callable[..., Any], ...] = (order, look)) -> RunHandle:
    """Return a run that makes these calls in one answer, and waits."""
    kit.agent(tools=tools)
    kit.model.script(Turn(calls=calls or (ORDER,)), Turn(text="Done."))
    handle = kit.run()
    next(event for event in handle.events() if isinstance(event, ApprovalPayload))
    return handle


def question(handle: RunHandle) -> dict[str, Any]:
    (approval,) = handle.approvals()
    return approval


def answered(handle: RunHandle, **answer: Any) -> list[tuple[str, str, Any]]:
    """Answer the run's question, and return the names, outcomes and results of its calls once it has ended."""
    handle.decide(question(handle)["approval_id"], Decision(**answer), by="ann")
    assert handle.result(30).status == "succeeded"
    return [(e.name, e.outcome, e.result) for e in handle.events() if isinstance(e, ToolResultPayload)]


def results(handle: RunHandle) -> list[tuple[str, str]]:
    """Return the names and outcomes of the calls of a run that has ended."""
    return [(e.name, e.outcome) for e in handle.events() if isinstance(e, ToolResultPayload)]


def sent_last(kit: AgentKit) -> str:
    """Return what the model got of the last call."""
    return str(kit.model.requests[-1].messages[-1]["content"])


def test_a_question_has_what_decides(kit: AgentKit) -> None:
    handle = begin(kit, Call(name="order", arguments={"item": "tea"}))

    event = next(each for each in handle.events() if isinstance(each, ApprovalPayload))
    listed = question(handle)
    answered(handle, decision="reject")

    assert event.input_schema == listed["input_schema"]
    assert listed["input_schema"]["description"] == "Order something."
    assert listed["input_schema"]["properties"]["boxes"]["default"] == 1
    assert listed["effect"] == "unsafe"


def test_a_call_waits_for_approval_and_is_made_once(kit: AgentKit) -> None:
    handle = begin(kit)
    approval = question(handle)

    assert (handle.status(), calls_made) == ("waiting", [])
    assert (approval["kind"], approval["decisions"], approval["arguments"]) == (
        "call",
        ["approve", "reject"],
        {"item": "tea", "boxes": 2},
    )
    assert answered(handle, decision="approve") == [("order", "done", "ordered 2")]
    assert calls_made == [("tea", 2)]


def test_a_rejected_call_is_not_made_and_the_model_gets_the_message(kit: AgentKit) -> None:
    handle = begin(kit)

    ((_, outcome, result),) = answered(handle, decision="reject", message="we have enough tea")

    assert (outcome, calls_made) == ("refused", [])
    assert "we have enough tea" in result
    assert sent_last(kit) == result


def test_edited_arguments_are_those_of_the_call_and_the_model_gets_a_note(kit: AgentKit) -> None:
    handle = begin(kit)
    original = question(handle)["digest"]

    assert answered(handle, decision="approve", arguments={"item": "tea", "boxes": 1}) == [
        ("order", "done", "ordered 1")
    ]

    assert calls_made == [("tea", 1)]
    assert sent_last(kit).startswith('A person changed the arguments to {"item":"tea","boxes":1}')
    request, decided = [e for e in handle.events() if isinstance(e, ApprovalPayload)]
    assert (request.digest, decided.arguments) == (original, {"item": "tea", "boxes": 1})
    with kit.runner.journal.database.read() as connection:
        (step,) = [step for step in steps_of(connection, handle.run_id) if step["kind"] == "tool"]
    assert step["arguments_digest"] == decided.digest != original


def test_long_edited_arguments_are_cut_for_the_model_as_a_result_is(kit: AgentKit) -> None:
    handle = begin(kit)

    answered(handle, decision="approve", arguments={"item": "tea" * 60_000})

    assert len(sent_last(kit)) < 65_000


def test_what_is_not_what_was_approved_is_asked_for_again(kit: AgentKit) -> None:
    handle = begin(kit)
    with kit.runner.journal.database.write() as connection:
        connection.execute(update(approvals).values(digest="0" * 64))

    handle.decide(question(handle)["approval_id"], Decision(decision="approve"), by="ann")
    payloads = list(islice((e for e in handle.events() if isinstance(e, ApprovalPayload)), 3))

    assert calls_made == []
    assert [e.reason for e in payloads if e.decision is None][1:] == [CHANGED]
    handle.cancel()


def test_the_number_of_approvers_alone_asks_for_approval(kit: AgentKit) -> None:
    @tool(name="order", effect="unsafe", approvers=2)
    def order_by_two(item: str, boxes: int = 1) -> str:
        """Order something.

        Args:
            item: what to order.
            boxes: how many boxes.
        """
        return order(item, boxes)

    handle = begin(kit, tools=(order_by_two,))

    assert (question(handle)["approvers"], calls_made) == (2, [])
    handle.cancel()


@pytest.mark.parametrize(
    "arguments", [{"item": "tea", "boxes": "many"}, {"boxes": 1}, {"item": "tea", "boxes": 1, "to": "me"}, {}]
)
def test_edited_arguments_have_to_fit_the_tool(kit: AgentKit, arguments: dict[str, Any]) -> None:
    handle = begin(kit)

    with raises(EDIT_REFUSED):
        handle.decide(question(handle)["approval_id"], Decision(decision="approve", arguments=arguments))

    assert handle.status() == "waiting"
    assert answered(handle, decision="approve") == [("order", "done", "ordered 2")]


@pytest.mark.parametrize("decision", ["run_again", "take_as_done", "fail"])
def test_only_the_answers_to_this_kind_of_question_are_taken(kit: AgentKit, decision: str) -> None:
    handle = begin(kit)

    with raises(DECISION_REFUSED):
        handle.decide(question(handle)["approval_id"], Decision(decision=decision))

    handle.cancel()
    assert (results(handle), calls_made) == ([("order", "cancelled")], [])


def test_calls_beside_it_are_made_before_the_run_waits(kit: AgentKit) -> None:
    handle = begin(kit, ORDER, Call(name="look", arguments={"item": "tea"}))

    assert answered(handle, decision="approve") == [("look", "done", "tea: in stock"), ("order", "done", "ordered 2")]


def test_several_calls_are_decided_one_by_one(kit: AgentKit) -> None:
    handle = begin(kit, ORDER, Call(name="order", arguments={"item": "pens"}))
    first, second = handle.approvals()

    handle.decide(first["approval_id"], Decision(decision="reject"))
    assert (handle.status(), calls_made) == ("waiting", [])
    handle.decide(second["approval_id"], Decision(decision="approve"))

    assert handle.result(30).status == "succeeded"
    assert calls_made == [("pens", 1)]
    assert sorted(results(handle)) == [("order", "done"), ("order", "refused")]


def test_a_run_that_is_stopped_while_it_waits_makes_no_call(kit: AgentKit) -> None:
    handle = begin(kit)

    handle.cancel()

    assert handle.result(30).status == "cancelled"
    assert (results(handle), calls_made) == ([("order", "cancelled")], [])


@pytest.mark.parametrize(
    ("on_expiry", "outcome", "message"),
    [("reject", "refused", "no person answered in time"), ("take_default", "done", "not ordered")],
)
def test_without_an_answer_in_time_the_run_continues_where_the_tool_says_so(
    kit: AgentKit, on_expiry: str, outcome: str, message: str
) -> None:
    @tool(name="order", effect="unsafe", confirm=True, on_expiry=on_expiry, default="not ordered")
    def order_in_time(item: str, boxes: int = 1) -> str:
        """Order something.

        Args:
            item: what to order.
            boxes: how many boxes.
        """
        return order(item, boxes)

    handle = begin(kit, tools=(order_in_time,))
    approval = question(handle)

    assert approval["on_expiry"] == on_expiry
    fire(kit.runner.journal.database, handle.run_id, approval["approval_id"])

    assert handle.result(30).status == "succeeded"
    assert (results(handle), calls_made) == ([("order", outcome)], [])
    assert message in sent_last(kit)


def test_another_version_of_the_tool_needs_another_approval(kit: AgentKit) -> None:
    handle = begin(kit)
    first = question(handle)

    @tool(name="order", effect="unsafe", confirm=True)
    def order_now(item: str, boxes: int = 1) -> str:
        """Order something at once, without a way back.

        Args:
            item: what to order.
            boxes: how many boxes.
        """
        return f"ordered {boxes} at once"

    kit.agent(tools=[order_now, look])
    handle.decide(first["approval_id"], Decision(decision="approve"))
    again = next(e for e in handle.events() if isinstance(e, ApprovalPayload) and e.approval_id != first["approval_id"])

    assert "has changed" in str(again.reason)
    assert (again.arguments, calls_made) == ({"item": "tea", "boxes": 2}, [])
    assert answered(handle, decision="approve") == [("order", "done", "ordered 2 at once")]


# --- how often people are asked -------------------------------------------------------------------


def asks(kit: AgentKit, *calls: Call, **options: Any) -> RunHandle:
    """Return a run whose model makes these calls and is not asked again."""
    kit.agent(tools=(order,))
    kit.model.script(Turn(calls=calls or (ORDER,)))
    handle = kit.run(**options)
    next(event for event in handle.events() if isinstance(event, ApprovalPayload | EndPayload))
    return handle


def test_a_run_that_would_ask_too_often_fails_and_makes_no_call() -> None:
    with AgentKit(settings={"questions_per_hour": 2}) as kit:
        first = asks(kit, ORDER, ORDER)
        second = asks(kit)

        errors = [event for event in second.events() if isinstance(event, ErrorPayload)]
        assert (second.result(30).status, errors[-1].code, calls_made) == ("failed", "too_many_questions", [])
        assert len(first.approvals()) == 2
        first.cancel()


def test_questions_of_other_principals_and_of_an_hour_ago_do_not_count() -> None:
    with AgentKit(settings={"questions_per_hour": 1}) as kit:
        asks(kit).cancel()
        with kit.runner.journal.database.write() as connection:
            connection.execute(update(approvals).values(created_ms=approvals.c.created_ms - 3_600_000))

        handle, other = asks(kit), asks(kit, principal=Principal(id="ben"))

        assert (handle.status(), other.status()) == ("waiting", "waiting")
        handle.cancel()
        other.cancel()


def test_two_calls_of_one_tool_are_counted_where_the_run_is_listed(kit: AgentKit) -> None:
    handle = begin(kit, ORDER, Call(name="order", arguments={"item": "pens"}))

    detail = kit.runner.journal.readers.runs.get(Principal(), handle.run_id)["detail"]
    for approval in handle.approvals():
        handle.decide(approval["approval_id"], Decision(decision="reject"), by="ann")
    handle.result(30)

    assert detail == "A person has to approve 2 calls of order before they are made."
