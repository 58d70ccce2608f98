"""What a person reads of a call: a sentence of the tool's title, what was left out, and which rule asks."""

from __future__ import annotations

from typing import Any

import pytest

from agents.testing import AgentKit, Call, Turn
from agents.tools.schema import build_tool
from agents.tools.tool import MAX_ARGUMENT_CHARS, MAX_SENTENCE_CHARS, tool
from bus.journal.approvals import Decision
from bus.payloads import ApprovalPayload
from config.definitions.errors import ToolUnknown
from tests.raising import raises

TITLE = "Pay back {amount} EUR for order {order} to {to}"


@tool(confirm=True, title=TITLE)
def refund(order: int, amount: float, to: str = "the customer", note: str | None = None) -> str:
    """Pay an order back."""
    return f"{order}: {amount} to {to}, {note}"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"order": 1043, "amount": 54.9}, "Pay back 54.9 EUR for order 1043 to the customer"),
        ({"order": 1, "to": "Okafor & Co"}, "Pay back … EUR for order 1 to Okafor & Co"),
        ({"order": 1, "amount": 2, "to": None}, "Pay back 2 EUR for order 1 to …"),
        ({"order": 1, "amount": 2, "to": " "}, 'Pay back 2 EUR for order 1 to ""'),
        ({"order": [1, {"a": 2}], "amount": True}, 'Pay back true EUR for order [1,{"a":2}] to the customer'),
        ({"order": 1, "amount": 2, "to": "{order} {x}"}, "Pay back 2 EUR for order 1 to {order} {x}"),
        ({"order": 1, "amount": 2, "to": "a\n b\x1b[2J"}, "Pay back 2 EUR for order 1 to a b⟨U+001B⟩[2J"),
        ({"order": 1, "amount": 2, "to": "x\u202etxt"}, "Pay back 2 EUR for order 1 to x⟨U+202E⟩txt"),
    ],
    ids=str,
)
def test_a_title_with_the_arguments_is_a_sentence(arguments: dict[str, Any], sentence: str) -> None:
    assert build_tool(refund).sentence(arguments) == sentence


def test_long_arguments_are_shortened_and_a_tool_without_a_title_has_no_sentence() -> None:
    @tool
    def plain(text: str) -> str:
        """Say it."""
        return text

    sentence = build_tool(refund).sentence({"order": "9" * 5000, "amount": "8" * 5000, "to": "7" * 5000})

    assert len(sentence) <= MAX_SENTENCE_CHARS
    assert "9" * MAX_ARGUMENT_CHARS not in sentence
    assert "9" * (MAX_ARGUMENT_CHARS - 1) + "…" in sentence
    assert build_tool(plain).sentence({"text": "hello"}) == ""


def test_a_title_that_names_no_argument_is_refused() -> None:
    @tool(title="Pay {amuont}")
    def wrong(amount: int) -> str:
        """Pay."""
        return str(amount)

    @tool(title="x" * 201)
    def long(amount: int) -> str:
        """Pay."""
        return str(amount)

    with raises(ToolUnknown, match="has {amuont}, which is no argument of it. Did you mean 'amount'"):
        build_tool(wrong)
    with raises(ToolUnknown, match="at most 200 characters"):
        build_tool(long)


def asked(kit: AgentKit, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the question about one call of the tool."""
    kit.model.script(Turn(calls=(Call(name="refund", arguments=arguments),)), Turn(text="Done."))
    handle = kit.run()
    next(event for event in handle.events() if isinstance(event, ApprovalPayload))
    (question,) = handle.approvals()
    handle.decide(question["approval_id"], Decision(decision="reject"), by="ann")
    assert handle.result(30).status == "succeeded"
    return question


def test_a_question_says_what_the_call_would_do_and_what_was_left_out(kit: AgentKit) -> None:
    kit.agent(tools=[refund])

    question = asked(kit, {"order": 1043, "amount": 54.9})

    assert question["sentence"] == "Pay back 54.9 EUR for order 1043 to the customer"
    assert question["defaults"] == {"to": "the customer", "note": None}
    assert (question["description"], question["classification"]) == ("Pay an order back.", "INTERNAL")
    assert question["rule"] == "tool's own"


def test_an_agents_file_has_another_title(kit: AgentKit) -> None:
    kit.agent(tools=[refund], tool_overrides={"refund": {"title": "Refund {order}"}})

    assert asked(kit, {"order": 7, "amount": 1})["sentence"] == "Refund 7"
