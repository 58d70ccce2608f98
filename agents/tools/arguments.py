"""Arguments of a tool call: text from a model, held against the tool's schema before anything happens."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

import orjson

from agents.tools.tool import Tool
from config.errors import ArgumentsInvalid
from config.json_schema import misfits

MAX_BYTES = 1024 * 1024
"""Longest arguments text."""
MAX_DEPTH = 64
"""Deepest nesting."""
MAX_DIGITS = 400
"""Longest number; Python itself stops at 4300 digits and long ones cost quadratic time."""

# The possessive loops and the optional quote keep it linear, whatever the text.
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))
_TOO_DEEP = re.compile(rb"[\[{]{%d}" % (MAX_DEPTH + 1))


def parse_arguments(text: str) -> dict[str, Any]:
    """Return the arguments a model wrote as JSON; nothing at all counts as no arguments.

    Raises:
        ArgumentsInvalid: not a JSON object, or one that two readers could read differently.
    """
    if len(text) > MAX_BYTES:
        raise ArgumentsInvalid(f"the arguments have {len(text):,} characters and the limit is {MAX_BYTES:,}.")
    if not text.strip():
        return {}
    if _is_too_deep(text):
        raise ArgumentsInvalid(f"the arguments are nested more than {MAX_DEPTH} levels deep.")
    try:
        value = _decoder().decode(text.strip())
    except json.JSONDecodeError as wrong:
        raise ArgumentsInvalid(f"the arguments are not JSON: {wrong.msg} at character {wrong.pos}.") from wrong
    if not isinstance(value, dict):
        raise ArgumentsInvalid('the arguments have to be a JSON object, like {"name": "value"}.')
    try:
        orjson.dumps(value)
    except (TypeError, ValueError) as wrong:  # half a surrogate pair, or a number beyond 64 bits
        raise ArgumentsInvalid(f"the arguments cannot be kept: {_reason(wrong)}.") from wrong
    return value


def validate_arguments(tool: Tool, arguments: Mapping[str, Any]) -> None:
    """Return when ``arguments`` fit the schema of ``tool``.

    Raises:
        ArgumentsInvalid: says for each misfit where it is and what is expected there.
    """
    found = misfits(tool.parameters, dict(arguments))
    if found:
        raise ArgumentsInvalid(f"the arguments of {tool.name} do not fit: {'; '.join(found)}.", misfits=found)


def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=_unique, parse_constant=_no_constant, parse_int=_bounded_int, parse_float=_finite
    )


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


def _is_too_deep(text: str) -> bool:
    """Return whether brackets outside strings nest too deeply, without recursion (the decoder recurses).

    Each round takes off the innermost pairs; what is left after as many rounds as levels are allowed is deeper, or is
    no JSON.
    """
    brackets = _STRING.sub("", text).encode("utf-8", "replace").translate(None, _NO_BRACKET)
    for _ in range(MAX_DEPTH):
        shorter = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if len(shorter) == len(brackets):
            break
        brackets = shorter
    return _TOO_DEEP.search(brackets) is not None or _opens(brackets)


def _opens(brackets: bytes) -> bool:
    """Return whether pairs are left although each round found some."""
    return b"[]" in brackets or b"{}" in brackets


def _reason(wrong: Exception) -> str:
    text = str(wrong)
    if "surrogate" in text:
        return "half of a surrogate pair is not text"
    if "64-bit" in text:
        return "a number is larger than 64 bits"
    return text
