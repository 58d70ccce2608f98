"""Makes the OpenAI SDK send plain JSON requests without transforming each of their values.

``AsyncCompletions.create`` matches every message against six types, recursively, to rename fields and format dates, and
every other parameter against its own. Plain JSON is unchanged by that, at 140 µs a message and 200 µs a request.
See docs/decisions/0034-plain-messages.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

Transform = Callable[[object, object], Awaitable[Any]]


def without_plain_messages(transform: Transform) -> Transform:
    """Return the SDK's ``async_maybe_transform`` so that it leaves what is plain JSON unchanged."""
    from openai._utils import is_given

    @wraps(transform)
    async def quick(data: object, expected_type: object) -> Any:
        messages = data.get("messages") if isinstance(data, dict) else None
        if not isinstance(data, dict) or not _are_plain(messages):
            return await transform(data, expected_type)
        others = {name: value for name, value in data.items() if name != "messages" and is_given(value)}
        if _are_plain([others]):
            return {name: value for name, value in data.items() if is_given(value)}
        sent = await transform({**data, "messages": []}, expected_type)  # the field keeps its place
        sent["messages"] = messages
        return sent

    return quick


def _are_plain(value: object) -> bool:
    """Return whether ``value`` is a list of JSON data, which the transformation would return unchanged."""
    if type(value) is not list:
        return False
    waiting: list[object] = [value]
    while waiting:
        part = waiting.pop()
        if type(part) is dict:
            waiting.extend(part.values())
        elif type(part) is list:
            waiting.extend(part)
        elif part is not None and type(part) not in (str, int, float, bool):
            return False
    return True
