"""Structured output: the answer as data that fits the agent's schema, or why it does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from config.errors import OutputInvalid
from config.json_schema import misfits

MAX_CHARS = 512 * 1024
"""Longest structured answer; decoding and checking it takes the loop of all the worker's runs."""
_FENCE = "```"


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema as providers take it."""
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(schema)}}


def parse_output(text: str, schema: Mapping[str, Any]) -> Any:
    """Return the data in an answer; a code fence around it is taken off.

    Raises:
        OutputInvalid: it is not JSON, does not fit, or is too long; the message says where, for a person and the model.
    """
    if len(text) > MAX_CHARS:
        raise OutputInvalid(f"the answer has {len(text):,} characters and the limit is {MAX_CHARS:,}.")
    try:
        value = orjson.loads(_without_fence(text))
    except orjson.JSONDecodeError as wrong:
        raise OutputInvalid(f"the answer is not JSON ({wrong}).") from wrong
    problems = misfits(schema, value)
    if problems:
        raise OutputInvalid(f"the answer does not fit the schema: {'; '.join(problems)}.")
    return value


def _without_fence(text: str) -> str:
    """Return what stands between the first and the last line, where these are a code fence; else ``text``."""
    answer = text.strip()
    opening, newline, inside = answer.partition("\n")
    if not newline or not inside.endswith(_FENCE) or opening.rstrip() not in (_FENCE, f"{_FENCE}json"):
        return text
    return inside.removesuffix(_FENCE)


def repair_request(problem: str) -> str:
    """Return what the model is told so that it can mend its answer."""
    return f"Your last answer cannot be used: {problem} Answer again with only the corrected JSON object."
