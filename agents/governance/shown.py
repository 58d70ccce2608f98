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


def shown(value: Any) -> Any:
    """Return JSON data without secrets; long texts are cut, and data that is too long as a whole becomes a text."""
    hidden = _hidden(value)
    try:
        encoded = orjson.dumps(hidden)
    except TypeError:  # half a surrogate pair, a number beyond 64 bits
        return json.dumps(hidden)[:MAX_TEXT] + _CUT
    if len(encoded) <= MAX_SHOWN:
        return hidden
    return encoded[:MAX_TEXT].decode("utf-8", "ignore") + _CUT


def _hidden(value: Any) -> Any:
    if isinstance(value, str):
        return redact_start(value, MAX_TEXT) + (_CUT if len(value) > MAX_TEXT else "")
    if isinstance(value, dict):
        return {redact_start(str(name), MAX_TEXT): _hidden(item) for name, item in value.items()}
    return [_hidden(item) for item in value] if isinstance(value, list | tuple) else value


def merged(original: Any, sent: Any, returned: Any) -> Any:
    """Return ``original`` with the engine's changes: what it returned as it was sent is not a change.

    Raises:
        ValueError: it changed something that it was shown in part.
    """
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
    if isinstance(sent, str) and sent.endswith(_CUT) and sent != original:
        raise ValueError("it was shown in part")
    return returned
