"""Structured output: parses and validates the answer against the agent's schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from agents.errors import OutputInvalid
from config.definitions.schemas.json_schema import schema_errors

MAX_CHARS = 512 * 1024
"""Longest structured answer; a worker decodes and checks it on the loop of all its runs."""
_FENCE = "```"


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema as OpenAI's ``response_format``."""
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(schema)}}


def parse_output(text: str, schema: Mapping[str, Any]) -> Any:
    """Return the data in an answer, without a code fence around it.

    Raises:
        OutputInvalid: it is not JSON, fails the schema, or is too long; the message is for people and the model.
    """
    if len(text) > MAX_CHARS:
        raise OutputInvalid(f"the answer has {len(text):,} characters and the limit is {MAX_CHARS:,}.")
    try:
        value = orjson.loads(_without_fence(text))
    except orjson.JSONDecodeError as error:
        raise OutputInvalid(f"the answer is not JSON ({error}).") from error
    problems = schema_errors(schema, value)
    if problems:
        raise OutputInvalid(f"the answer does not fit the schema: {'; '.join(problems)}.")
    return value


def _without_fence(text: str) -> str:
    """Return ``text`` without its first and last line where these are a code fence."""
    answer = text.strip()
    opening, newline, inside = answer.partition("\n")
    if not newline or not inside.endswith(_FENCE) or opening.rstrip() not in (_FENCE, f"{_FENCE}json"):
        return text
    return inside.removesuffix(_FENCE)


def repair_messages(text: str, problem: str) -> list[dict[str, Any]]:
    """Return the messages that make the model correct an answer that failed the schema."""
    request = f"Your last answer cannot be used: {problem} Answer again with only the corrected JSON object."
    return [{"role": "assistant", "content": text}, {"role": "user", "content": request}]
