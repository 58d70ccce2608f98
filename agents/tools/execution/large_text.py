"""Runs functions whose time grows with a model's text or a tool's data: on a thread, so that the loop is free."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import orjson

LARGE_CHARS = 64 * 1024
"""Longer texts go to a thread: decoding takes about 0.1 ms per KiB, and switching to a thread as long as one KiB."""
P = ParamSpec("P")
T = TypeVar("T")


async def in_thread_if_large(chars: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call ``function``, on a thread if ``chars`` is above ``LARGE_CHARS``; a cancelled caller does not wait for it."""
    if chars < LARGE_CHARS:
        return function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)


def chars_of(value: Any) -> int:
    """Return about how many characters JSON data has; of data that orjson does not take, as many as are large."""
    if isinstance(value, str):
        return len(value)
    try:
        return len(orjson.dumps(value))  # 1 ms for 60,000 keys, where examining them takes 50 to 500
    except TypeError:  # half a surrogate pair, a number beyond 64 bits
        return LARGE_CHARS
