"""Runs functions whose time grows with a model's text: long texts on a thread, so that the loop stays responsive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

LARGE_CHARS = 64 * 1024
"""Longer texts go to a thread: decoding takes about 0.1 ms per KiB, and switching to a thread as long as one KiB."""
P = ParamSpec("P")
T = TypeVar("T")


async def in_thread_if_large(chars: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call ``function``, on a thread if ``chars`` is above ``LARGE_CHARS``; a cancelled caller does not wait for it."""
    if chars < LARGE_CHARS:
        return function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)
