"""How large an answer over HTTP may be, and what of a larger one gives way.

An answer can be one event of a stream, and the SDK's client refuses an event of more than 1 MiB. The SDK's server
writes each character beyond ASCII as an escape of six or twelve bytes, so sizes are counted in these.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import orjson
from mcp.types import CallToolResult, TextContent

T = TypeVar("T")

MAX_ANSWER_BYTES = 900_000
"""Most bytes of an answer; the rest of the client's limit is left for the message around it."""
TEXT_BYTES = 20_000
"""Bytes that a result's text has at least, where the structured content needs all others."""
LEAST_CHARS = 1000
"""No text is cut to less than half of this."""
CUT = "\n[cut here: {shown:,} of {whole:,} characters are shown; {where}]"
STRUCTURED = "the structured content has all of it"
TOO_LARGE = "the output is too large for this answer, so it is cut and in the text alone; status_url has all of it."
_COPIED = ("output", "events")
"""Members of the structured content that the text repeats."""


def encoded_bytes(value: Any) -> int:
    """Return the size of JSON data as the SDK's server writes them."""
    return len(json.dumps(value, separators=(",", ":")))


def text_bytes(value: Any) -> int:
    """Return the size of JSON data that are sent as a text."""
    return encoded_bytes(orjson.dumps(value).decode())


def fitted(found: CallToolResult, max_bytes: int | None) -> CallToolResult:
    """Return a result of at most ``max_bytes``, or as it is where that is None.

    The text gives way first, since the structured content has the same, and then the output in the structured content.
    """
    state = found.structured_content or {}
    text = "".join(part.text for part in found.content if isinstance(part, TextContent))
    if max_bytes is None or encoded_bytes(state) + encoded_bytes(text) <= max_bytes:
        return found
    where = f"{state.get('status_url', 'the log')} has all of it"
    if encoded_bytes(state) > max_bytes - TEXT_BYTES:
        if "output" in state:
            state = {name: value for name, value in state.items() if name != "output"} | {"reason": TOO_LARGE}
        state = shortened(state, max_bytes - TEXT_BYTES, where)
    if any(name in state for name in _COPIED):
        where = STRUCTURED
    text = shortened(text, max_bytes - encoded_bytes(state), where)
    return found.model_copy(
        update={"content": [TextContent(type="text", text=text)], "structured_content": dict(state)}
    )


def shortened(value: T, max_bytes: int, where: str, size: Callable[[Any], int] = encoded_bytes) -> T:
    """Return a text or an object of at most ``max_bytes``: its longest texts are cut, and say ``where`` they are whole.

    A member of an object that has very many short values becomes the beginning of its JSON as text.
    """
    found: Any = value
    most = max_bytes
    while size(found) > max_bytes and most > LEAST_CHARS:
        most //= 2
        found = _with_texts_cut(value, most, where)
    if isinstance(found, Mapping) and size(found) > max_bytes:
        found = {name: _as_text(member, where) for name, member in found.items()}
    return cast(T, found)


def fitting(values: Sequence[T], max_bytes: int) -> list[T]:
    """Return the first of these JSON data that fit as a text together, and one at least."""
    left = max_bytes
    for count, value in enumerate(values):
        left -= text_bytes(value)
        if left < 0 and count:
            return list(values[:count])
    return list(values)


def _with_texts_cut(value: Any, most: int, where: str) -> Any:
    if isinstance(value, str) and len(value) > most:
        return value[:most] + CUT.format(shown=most, whole=len(value), where=where)
    if isinstance(value, Mapping):
        return {name: _with_texts_cut(member, most, where) for name, member in value.items()}
    return [_with_texts_cut(one, most, where) for one in value] if isinstance(value, list) else value


def _as_text(member: Any, where: str) -> Any:
    if text_bytes(member) <= LEAST_CHARS:
        return member
    text = member if isinstance(member, str) else orjson.dumps(member).decode()
    return _with_texts_cut(text, LEAST_CHARS, where)
