"""What the engine gets of arguments and results: without secrets, and of bounded size; and what becomes of its changes.

A text that the engine did not change keeps what was hidden from it.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

from config.redaction import redact_start

MAX_TEXT = 64 * 1024
"""Characters of one text."""
MAX_SHOWN = 256 * 1024
"""Bytes of all of it, as JSON."""
_CUT = "… (cut)"


def redact_for_engine(value: Any) -> tuple[Any, bool]:
    """Return JSON data without secrets, and whether it is less than ``value``, or of another shape.

    Long texts are cut, and data that is too long as a whole becomes a text.
    """
    hidden = _hidden(value)
    try:
        encoded = orjson.dumps(hidden)
    except TypeError:  # half a surrogate pair, a number beyond 64 bits
        return json.dumps(hidden)[:MAX_TEXT] + _CUT, True
    if len(encoded) > MAX_SHOWN:
        return encoded[:MAX_TEXT].decode("utf-8", "ignore") + _CUT, True
    return hidden, _is_cut(value, hidden)


def _hidden(value: Any) -> Any:
    if isinstance(value, str):
        return _start(value)
    if isinstance(value, dict):
        return {_start(str(name)): _hidden(item) for name, item in value.items()}
    return [_hidden(item) for item in value] if isinstance(value, list | tuple) else value


def _start(text: str) -> str:
    start = redact_start(text, MAX_TEXT)
    is_cut = len(text) > MAX_TEXT or (len(start) == MAX_TEXT and start != text)  # a replacement may be longer
    return start + _CUT if is_cut else start


def _is_cut(value: Any, hidden: Any) -> bool:
    if isinstance(value, str):
        return bool(value != hidden and hidden.endswith(_CUT))
    if isinstance(value, dict):  # names that differ only in their secrets have one place
        pairs = zip(value.items(), hidden.items(), strict=False)
        return len(value) != len(hidden) or any(_is_cut(str(a), b) or _is_cut(x, y) for (a, x), (b, y) in pairs)
    return isinstance(value, list | tuple) and any(map(_is_cut, value, hidden))


def merged(original: Any, sent: Any, returned: Any) -> Any:
    """Return ``original``, which was sent whole, with the engine's changes: what it returned as sent is no change."""
    if returned == sent and type(returned) is type(sent):
        return original
    if isinstance(returned, dict) and isinstance(sent, dict) and isinstance(original, dict):
        before = {redact_start(str(name), MAX_TEXT): name for name in original}
        return {
            before.get(name, name): merged(original[before[name]], sent[name], item) if name in before else item
            for name, item in returned.items()
        }
    if isinstance(returned, list) and isinstance(sent, list) and len(returned) == len(sent) == len(original):
        return [merged(*three) for three in zip(original, sent, returned, strict=True)]
    return returned
