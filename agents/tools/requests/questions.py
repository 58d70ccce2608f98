"""Questions that a tool asks a person: a text, and a form as a JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agents.tool_errors import QuestionInvalid
from config.definitions.schemas.json_schema import SchemaRefused, check_schema, schema_errors
from config.definitions.schemas.shown_schema import shown_schema

DEFAULT_FORM: Mapping[str, Any] = {
    "type": "object",
    "properties": {"answer": {"type": "string", "minLength": 1, "maxLength": 10_000}},
    "required": ["answer"],
    "additionalProperties": False,
}
"""The form of a question that has none: one text."""
MAX_TEXT = 2000
"""Characters of a question."""
MAX_FIELDS = 30
"""Fields of a form."""
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
MAX_ASKED = 10
"""Questions that one call may ask."""


class QuestionAsked(BaseException):
    """A tool asked a person, and its call is over until there is an answer. Not to be handled by tools."""

    def __init__(self, text: str, form: Mapping[str, Any], state: str | None = None) -> None:
        super().__init__(text, form, state)
        self.text = text
        self.form = form
        self.state = state


class CallAsks(Exception):
    """A call ended because its tool asked a person."""

    def __init__(self, text: str, form: Mapping[str, Any], state: str | None = None) -> None:
        super().__init__(text, form, state)
        self.text = text
        self.form = form
        self.state = state


def require_few(count: int) -> None:
    """Check that a call which has asked so many questions may ask another one.

    Raises:
        QuestionInvalid: it may not.
    """
    if count >= MAX_ASKED:
        raise QuestionInvalid(
            f"one call may ask {MAX_ASKED} questions, and this one has; ask for several fields at once."
        )


def require_question(text: Any, form: Any) -> None:
    """Check that a person can be asked this; both come from a tool, or from a model.

    Raises:
        QuestionInvalid: the message says what to change.
    """
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_TEXT:
        raise QuestionInvalid(f"a question is a text of 1 to {MAX_TEXT:,} characters.")
    if _NO_TEXT.search(text):
        raise QuestionInvalid("the question has a NUL or half of a surrogate pair, which no database keeps.")
    properties = form.get("properties") if isinstance(form, Mapping) else None
    if not isinstance(properties, Mapping) or form.get("type") != "object" or not properties:
        raise QuestionInvalid("a form is a JSON Schema with `type: object` and `properties`, one for each field.")
    if len(properties) > MAX_FIELDS:
        raise QuestionInvalid(f"a form has at most {MAX_FIELDS} fields, and this one {len(properties)}.")
    try:
        check_schema(form)
        shown_schema(form)
    except SchemaRefused as error:
        raise QuestionInvalid(f"the form cannot be used: {error}") from error
    unknown = [name for name in form.get("required", ()) if name not in properties]
    if unknown:
        raise QuestionInvalid(f"the form requires '{str(unknown[0])[:80]}', which is none of its `properties`.")


def missing_form(parameters: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the form of the required arguments that are missing, where the others fit; else None."""
    missing = [name for name in parameters.get("required", ()) if name not in arguments]
    properties = parameters.get("properties", {})
    if not missing or any(name not in properties for name in missing):
        return None
    others = {**parameters, "required": [name for name in parameters["required"] if name in arguments]}
    if schema_errors(others, dict(arguments)):
        return None
    form: dict[str, Any] = {"type": "object", "properties": {name: properties[name] for name in missing}}
    form |= {"required": missing, "additionalProperties": False}
    return form | ({"$defs": parameters["$defs"]} if "$defs" in parameters else {})
