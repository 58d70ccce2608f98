"""A question of a run as a form of a client, and the decision that it becomes."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.types import ElicitResult
from mcp_types._v2025_11_25 import ElicitRequestFormParams

from web.mcp.elicitation import decision_of, form_of, is_showable, message_of

FLAT = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "title": "Name", "minLength": 2, "format": "email", "pattern": ".*"},
        "seats": {"type": "integer", "minimum": 1, "default": 2},
        "is_late": {"type": "boolean"},
        "kind": {"type": "string", "enum": ["a", "b"]},
        "extras": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}},
        "when": {"type": "string", "format": "week"},
    },
}


def _question(**fields: Any) -> dict[str, Any]:
    facts = {"approval_id": "apr_1", "kind": "call", "name": "book", "arguments": {"room": "blue"}, "digest": "d"}
    more = {"decisions": ["approve", "reject"], "reason": "Its tool asks.", "approvers": 1, "input_schema": None}
    return {**facts, **more, "expires_at": "2026-11-30T10:00:00Z", **fields}


@pytest.mark.parametrize(
    "question",
    [
        _question(),
        _question(decisions=["run_again", "take_as_done", "fail"]),
        _question(decisions=["answer", "reject"], input_schema=FLAT),
        _question(decisions=["answer", "reject"], input_schema={"properties": {"a": {"type": "object"}}}),
        _question(decisions=["answer", "reject"], input_schema=None),
    ],
)
def test_a_form_is_one_that_clients_can_show(question: dict[str, Any]) -> None:
    form = form_of(question)

    params = ElicitRequestFormParams.model_validate({"message": message_of(question), "requestedSchema": form})

    assert params.message


def test_the_fields_of_a_flat_form_keep_what_clients_know() -> None:
    form = form_of(_question(decisions=["answer", "reject"], input_schema=FLAT))

    assert form["properties"]["name"] == {"type": "string", "title": "Name", "minLength": 2, "format": "email"}
    assert form["properties"]["when"] == {"type": "string"}
    assert form["required"] == ["name"]


@pytest.mark.parametrize(
    "field",
    [
        {"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}], "default": "a"},
        {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]},
        {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1, "maxItems": 2},
        {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
    ],
)
def test_choices_are_shown_as_they_are(field: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"one": field}}

    assert form_of(_question(decisions=["answer", "reject"], input_schema=schema))["properties"] == {"one": field}


@pytest.mark.parametrize(
    "field",
    [
        {"type": "string", "oneOf": [{"const": "a"}]},
        {"type": "string", "oneOf": [{"type": "string"}, "a"]},
        {"type": "string", "oneOf": []},
        {"type": "integer", "enum": [1, 2]},
        {"type": "array", "items": {"anyOf": [{"const": 1, "title": "One"}]}},
        {"type": "array", "items": {"type": "string"}},
    ],
)
def test_other_choices_are_one_text_of_json(field: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"one": field}}

    assert list(form_of(_question(decisions=["answer", "reject"], input_schema=schema))["properties"]) == ["answer"]


def test_a_form_with_other_fields_is_one_text_of_json() -> None:
    nested = {"properties": {"place": {"type": "object"}}}
    question = _question(decisions=["answer", "reject"], input_schema=nested)

    elicit_result = ElicitResult(action="accept", content={"answer": '{"place": {"row": 1}}'})
    decision = decision_of(question, elicit_result)

    assert list(form_of(question)["properties"]) == ["answer"]
    assert decision is not None
    assert decision.result == {"place": {"row": 1}}


@pytest.mark.parametrize(
    ("decisions", "action", "content", "expected"),
    [
        (["approve", "reject"], "accept", {"decision": "approve"}, "approve"),
        (["approve", "reject"], "accept", {"decision": "run_again"}, None),
        (["approve", "reject"], "accept", None, None),
        (["approve", "reject"], "decline", None, "reject"),
        (["approve", "reject"], "cancel", {"decision": "approve"}, None),
        (["run_again", "take_as_done", "fail"], "decline", None, None),
        (["run_again", "take_as_done", "fail"], "accept", {"decision": "fail"}, "fail"),
        (["answer", "reject"], "accept", {"answer": "1"}, "answer"),
    ],
)
def test_an_answer_is_the_decision_that_the_user_made(
    decisions: list[str], action: Any, content: dict[str, Any] | None, expected: str | None
) -> None:
    decision = decision_of(_question(decisions=decisions), ElicitResult(action=action, content=content))

    assert (decision.decision if decision is not None else None) == expected


def test_hidden_characters_of_a_call_are_shown() -> None:
    assert "⟨U+202E⟩" in message_of(_question(name="book\u202e"))


def test_a_question_that_cannot_be_shown_whole_is_for_another_place() -> None:
    assert is_showable(_question())
    assert not is_showable(_question(approvers=2))
    assert not is_showable(_question(arguments={"text": "x" * 5000}))
