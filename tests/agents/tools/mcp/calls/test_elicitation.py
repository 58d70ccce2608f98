"""What a server may ask a person: single values, no secrets, and addresses of https, in visible characters."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.types import ElicitRequestFormParams, ElicitRequestURLParams

from agents.tools.mcp.calls.elicitation import OPENED, Declined, elicited
from config.definitions.schemas.json_schema import schema_errors


def asked(fields: Any, message: str = "For how many?", **schema: Any) -> Any:
    form = {"type": "object", "properties": fields, **schema}
    return elicited("shop", ElicitRequestFormParams(message=message, requested_schema=form))


def test_a_form_keeps_what_the_protocol_has_and_nothing_else() -> None:
    fields = {
        "guests": {"type": "integer", "minimum": 1, "title": "Gue\u202ests", "x-run": "rm"},
        "mail": {"type": "string", "format": "email", "pattern": "(a+)+$"},
        "odd": {"type": "string", "format": "regex", "$ref": "https://evil.example"},
        "when": {"type": "string", "oneOf": [{"const": "a", "title": "Noon"}, {"const": "b", "title": "Night"}]},
        "old": {"type": "string", "enum": ["x", "y"], "enumNames": ["X", "Y"]},
        "many": {"type": "array", "items": {"anyOf": [{"const": "p", "title": "Pie"}]}, "maxItems": 1},
        "sure": {"type": "boolean", "default": False},
    }
    question = asked(fields, required=["guests"])

    assert question.text == "The MCP server shop asks: For how many?"
    assert question.form == {
        "type": "object",
        "properties": {
            "guests": {"type": "integer", "minimum": 1, "title": "Gue⟨U+202E⟩sts"},
            "mail": {"type": "string", "format": "email"},
            "odd": {"type": "string"},
            "when": {"type": "string", "enum": ["a", "b"], "description": "a: Noon\nb: Night"},
            "old": {"type": "string", "enum": ["x", "y"]},
            "many": {
                "type": "array",
                "maxItems": 1,
                "items": {"type": "string", "enum": ["p"]},
                "description": "p: Pie",
            },
            "sure": {"type": "boolean", "default": False},
        },
        "required": ["guests"],
        "additionalProperties": False,
    }
    assert not schema_errors(question.form, {"guests": 3, "many": ["p"]})
    assert question.result({"guests": 3}).model_dump(exclude_none=True) == {
        "action": "accept",
        "content": {"guests": 3, "sure": False},  # the default of what was left open
    }


@pytest.mark.parametrize(
    ("field", "default"),
    [
        ({"type": "string"}, {"x": 1}),
        ({"type": "string", "maxLength": 2}, "long"),
        ({"type": "string"}, "hid\u200bden"),
        ({"type": "string"}, None),
        ({"type": "string", "enum": ["a", "b"]}, "c"),
        ({"type": "integer"}, "zz"),
        ({"type": "integer", "maximum": 3}, 4),
        ({"type": "number"}, float("nan")),
        ({"type": "number"}, 10**30),
        ({"type": "boolean"}, 1),
        ({"type": "array", "items": {"type": "string", "enum": ["a"]}}, ["a", {"x": 1}]),
        ({"oneOf": [{"const": "a", "title": "A"}]}, "b"),
    ],
)
def test_a_default_that_does_not_fit_its_field_is_left_out(field: dict[str, Any], default: Any) -> None:
    question = asked({"a": {**field, "default": default}, "b": {"type": "integer", "default": 2}})

    assert "default" not in question.form["properties"]["a"]
    assert question.result({}).content == {"b": 2}


def test_the_same_question_in_a_later_round_is_another_one() -> None:
    params = ElicitRequestFormParams(
        message="Code?", requested_schema={"type": "object", "properties": {"a": {"type": "number"}}}
    )

    assert elicited("shop", params, 1).form != elicited("shop", params, 2).form


TEXT = {"type": "string"}
DECLINED: dict[str, Any] = {
    "password": ({"password": TEXT}, "Sign in"),
    "camel_case": ({"dbPassWord": TEXT}, "Sign in"),
    "api_key": ({"value": {**TEXT, "title": "Your API-Key"}}, "Sign in"),
    "described": ({"value": {**TEXT, "description": "the access token"}}, "Sign in"),
    "in_the_message": ({"value": TEXT}, "Please enter your PIN"),
    "card": ({"number": {**TEXT, "title": "Card number"}}, "Pay"),
    "nested": ({"a": {"type": "object", "properties": {}}}, "Hello"),
    "untyped": ({"a": {}}, "Hello"),
    "no_field": ({"a": 3}, "Hello"),
    "hidden_name": ({"a\u200b": TEXT}, "Hello"),
    "many": ({f"f{n}": TEXT for n in range(31)}, "Hello"),
    "list_of_objects": ({"a": {"type": "array", "items": {"type": "object"}}}, "Hello"),
    "odd_choices": ({"a": {"type": "string", "enum": [1, 2]}}, "Hello"),
    "impossible": ({"a": {"type": "string", "minLength": -1}}, "Hello"),
    "none": ({}, "Hello"),
}


@pytest.mark.parametrize("name", DECLINED)
def test_what_no_form_may_have_is_declined(name: str) -> None:
    with pytest.raises(Declined):
        asked(*DECLINED[name])


def test_words_about_secrets_are_no_secrets() -> None:
    assert asked({"sure": {"type": "boolean"}}, "Reset the password of ann? Enter yes to confirm.")
    assert asked({"token_count": {"type": "integer", "title": "Tokens"}})
    assert asked({"kind": {"type": "string", "enum": ["password", "token"]}})
    with pytest.raises(Declined, match="list of names"):
        asked({"a": TEXT}, required="a")
    with pytest.raises(Declined, match="requires 'b'"):
        asked({"a": TEXT}, required=["b"])


def address(url: str) -> Any:
    return elicited("shop", ElicitRequestURLParams(message="Please sign in.", url=url, elicitation_id="1"))


def test_an_address_is_shown_with_its_host_and_never_opened() -> None:
    question = address("https://login.example.org:8443/a?b=c")

    assert (
        "at login.example.org:8443 in your browser: Please sign in.\n\nhttps://login.example.org:8443/a?b=c"
        in question.text
    )
    assert "at [2001:db8::1]:8443 in" in address("https://[2001:db8::1]:8443/").text
    assert "at XN--pple-43d.example in" in address("https://XN--pple-43d.example").text
    assert question.form == OPENED
    assert [question.result({"opened": flag}).action for flag in (True, False)] == ["accept", "decline"]
    assert question.result({"opened": True}).content is None


@pytest.mark.parametrize(
    "url",
    [
        "http://login.example.org/",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "data:text/html,hello",
        "https:///nowhere",
        "https://ann:secret@login.example.org/",
        "https://login.example.org\u202e/",
        "https://xn--\u0430pple.example/",
        "https://login.example.org/ a",
        "https://login.example.org/\n",
        "https://login.example.org:port/",
        "https://login.example.org/" + "a" * 600,
        r"https://evil.example\.bank.example/",
        r"https://login.example.org/a\b",
        "https://evil.example%2f.bank.example/",
        "https://evil.example;bank.example/",
        "https://ann@login.example.org/",
        "https://@login.example.org/",
        "https://[::1/",
        "https://:443/",
        "https://\tlogin.example.org/",
        "https://ex\u00e4mple.org/",
    ],
    ids=range(22),
)
def test_other_addresses_are_declined(url: str) -> None:
    with pytest.raises(Declined):
        address(url)
