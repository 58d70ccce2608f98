"""The arguments of a call, checked before there is a run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

from mcp.types import Tool
from pydantic import ValidationError

from agents.errors import ArgumentsInvalid
from config.definitions.schemas.json_schema import schema_errors
from config.errors import BadRequest
from web.calls.bodies import MAX_DEPTH, MAX_TEXTS, MAX_VALUES
from web.calls.fields import Input
from web.calls.refusals import refusal

Fields = TypeVar("Fields", bound=Input)


def require_fit(tool: Tool, arguments: Mapping[str, Any]) -> None:
    """Return if the arguments fit the schema with which the tool is listed.

    Raises:
        ArgumentsInvalid: they do not; its fact ``problems`` has a sentence for each place.
    """
    problems = schema_errors(tool.input_schema, dict(arguments))
    if problems:
        raise ArgumentsInvalid(f"the arguments of {tool.name} do not fit: {'; '.join(problems)}.", problems=problems)


def read_arguments(model: type[Fields], arguments: Mapping[str, Any]) -> Fields:
    """Return the arguments as this model.

    Raises:
        ArgumentsInvalid: one is missing, unknown or wrong; the sentence names the first.
    """
    try:
        return model.model_validate(dict(arguments))
    except ValidationError as error:
        sentence = str(refusal("argument", model, error))
    except BadRequest as error:  # of a field whose check has a sentence of its own
        sentence = str(error)
    raise ArgumentsInvalid(sentence, problems=[sentence])


def problems_of(error: Exception) -> list[str] | None:
    """Return what the validator of the arguments found; None for another error."""
    return error.facts.get("problems") if isinstance(error, ArgumentsInvalid) else None


def require_plain(value: Any) -> None:
    """Refuse what HTTP bodies may not have either (web/calls/bodies.py): on stdio the SDK reads JSON with other rules.

    Raises:
        BadRequest: NUL or half a surrogate pair in a text, a number that is not finite or has more than 64 bits, more
            than 64 levels or 50,000 values.
    """
    waiting, count = [(value, 1)], 0
    while waiting:
        part, depth = waiting.pop()
        count += 1
        if depth > MAX_DEPTH:
            raise BadRequest(f"the arguments are nested deeper than {MAX_DEPTH} levels.")
        if count + len(waiting) > MAX_TEXTS:
            raise BadRequest(
                f"the arguments have more than {MAX_VALUES:,} values; send less, or long material as text."
            )
        if isinstance(part, str):
            _require_text(part)
        elif isinstance(part, Mapping):
            waiting += [(member, depth + 1) for both in part.items() for member in both]
        elif isinstance(part, list):
            waiting += [(member, depth + 1) for member in part]
        elif isinstance(part, float) and not math.isfinite(part):
            raise BadRequest("the arguments have a number that is not finite.")
        elif isinstance(part, int) and part.bit_length() > 64:
            raise BadRequest("the arguments have a number of more than 64 bits; send it as text.")


def _require_text(text: str) -> None:
    if "\0" in text:
        raise BadRequest("a text has the character NUL, which a database cannot keep; leave it out.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadRequest("a text has half of a surrogate pair, which is no character; leave it out.") from error
