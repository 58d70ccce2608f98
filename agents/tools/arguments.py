"""Arguments of a tool call: decodes the model's text and validates it against the tool's schema."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

import orjson

from agents.tool_errors import ArgumentsInvalid
from agents.tools.tool import Tool
from config.definitions.schemas.json_schema import schema_errors

MAX_BYTES = 1024 * 1024
"""Longest arguments text."""
MAX_DEPTH = 64
"""Deepest nesting."""
MAX_DIGITS = 400
"""Longest number; Python's own limit is 4300 digits, and decoding takes quadratic time."""
SLICE_BYTES = 64 * 1024
"""What is split at once; one call for a whole text would keep other threads waiting."""

_NO_MARK = bytes(set(range(256)) - set(b'[]{}"'))
_TOO_DEEP = re.compile(rb"[\[{]{%d}" % (MAX_DEPTH + 1))


def parse_arguments(text: str) -> dict[str, Any]:
    """Return the arguments that a model wrote as JSON; an empty text means no arguments.

    Raises:
        ArgumentsInvalid: it is not a JSON object, or an ambiguous one (a repeated key, NaN).
    """
    if len(text) > MAX_BYTES:
        raise ArgumentsInvalid(f"the arguments have {len(text):,} characters and the limit is {MAX_BYTES:,}.")
    if not text.strip():
        return {}
    if _is_too_deep(text):
        raise ArgumentsInvalid(f"the arguments are nested more than {MAX_DEPTH} levels deep.")
    try:
        value = _DECODER.decode(text.strip())
    except json.JSONDecodeError as error:
        raise ArgumentsInvalid(f"the arguments are not JSON: {error.msg} at character {error.pos}.") from error
    if not isinstance(value, dict):
        raise ArgumentsInvalid('the arguments have to be a JSON object, like {"name": "value"}.')
    try:
        orjson.dumps(value)
    except (TypeError, ValueError) as error:  # half a surrogate pair, or a number beyond 64 bits
        raise ArgumentsInvalid(f"the arguments cannot be kept: {_reason(error)}.") from error
    return value


def validate_arguments(tool: Tool, arguments: Mapping[str, Any]) -> None:
    """Check that ``arguments`` conform to the schema of ``tool``.

    Raises:
        ArgumentsInvalid: the message names the place of each problem and what is expected there.
    """
    misfits = schema_errors(tool.parameters, dict(arguments))
    if misfits:
        raise ArgumentsInvalid(f"the arguments of {tool.name} do not fit: {'; '.join(misfits)}.", misfits=misfits)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for name, item in pairs:
        if name in value:
            raise ArgumentsInvalid(f"'{name[:80]}' is there twice; write it once.")
        value[name] = item
    return value


def _no_constant(name: str) -> NoReturn:
    raise ArgumentsInvalid(f"{name} is not JSON; write a number, or null.")


def _bounded_int(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ArgumentsInvalid(f"a number of {len(text)} digits is too long.")
    return int(text)


def _finite(text: str) -> float:
    value = float(text) if len(text) <= MAX_DIGITS else float("inf")
    if value in (float("inf"), float("-inf")):
        raise ArgumentsInvalid(f"the number {text[:20]} is too large.")
    return value


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_no_constant, parse_int=_bounded_int, parse_float=_finite
)


def _is_too_deep(text: str) -> bool:
    """Return whether brackets outside strings nest too deeply, without recursion (the decoder recurses).

    Most texts have too few brackets for that. Each round removes the innermost pairs; brackets that remain after
    ``MAX_DEPTH`` rounds are deeper, or not JSON.
    """
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    brackets = _outside_strings(text)
    for _ in range(MAX_DEPTH):
        shorter = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if len(shorter) == len(brackets):
            break
        brackets = shorter
    has_pairs = b"[]" in brackets or b"{}" in brackets  # although each round removed some
    return has_pairs or _TOO_DEEP.search(brackets) is not None


def _outside_strings(text: str) -> bytes:
    """Return the brackets of a JSON text that are in no string; a quote without an escape begins or ends one."""
    unescaped = text.encode("utf-8", "replace").replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = unescaped.translate(None, _NO_MARK)
    buffer, is_inside = bytearray(), False
    for at in range(0, len(marks), SLICE_BYTES):
        pieces = marks[at : at + SLICE_BYTES].split(b'"')
        buffer += b"".join(pieces[is_inside::2])
        is_inside ^= len(pieces) % 2 == 0
    return bytes(buffer)


def _reason(error: Exception) -> str:
    text = str(error)
    if "surrogate" in text:
        return "half of a surrogate pair is not text"
    if "64-bit" in text:
        return "a number is larger than 64 bits"
    return text
