"""Lets the OpenAI SDK send messages as they are, instead of looking at each field of each message again.

``AsyncCompletions.create`` holds every message against each of six types, recursively, to rename fields and to
format dates. Messages that are plain JSON come out as they went in, after 140 µs each: 150 ms for a thousand.
See docs/decisions/0034-plain-messages.md.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

log = logging.getLogger(__name__)

_NAME = "async_maybe_transform"
"""What the SDK's module of chat completions calls its transformation."""
Transform = Callable[[object, object], Awaitable[Any]]


def send_plain_messages() -> bool:
    """Have ``create`` hand over plain messages untouched from now on; returns whether this SDK lets us.

    An SDK that calls its transformation otherwise keeps it, and is only slower.
    """
    from openai.resources.chat.completions import completions

    transform: Transform | None = getattr(completions, _NAME, None)
    if transform is None:
        log.warning("this release of the OpenAI SDK transforms each message; long conversations take longer")
        return False
    if not hasattr(transform, "__wrapped__"):
        setattr(completions, _NAME, _without_messages(transform))
    return True


def _without_messages(transform: Transform) -> Transform:
    @wraps(transform)
    async def quick(data: object, expected_type: object) -> Any:
        messages = data.get("messages") if isinstance(data, dict) else None
        if not isinstance(data, dict) or not _are_plain(messages):
            return await transform(data, expected_type)
        sent = await transform({**data, "messages": []}, expected_type)  # the field keeps its place
        sent["messages"] = messages
        return sent

    return quick


def _are_plain(value: object) -> bool:
    """Whether ``value`` is a list of what JSON has: the transformation would return it unchanged."""
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
