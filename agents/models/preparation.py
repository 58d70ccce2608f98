"""Has LiteLLM prepare a short model call on the loop instead of on a thread of the loop's default executor.

``acompletion`` runs ``completion`` on that executor; it builds the request and returns a coroutine. Both changes of
thread wait for the interpreter's lock, while other threads of the worker are busy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from agents.models.http.provider_call import in_provider_call

MAX_MESSAGES, MAX_TOOLS, MAX_CHARACTERS = 64, 16, 200_000
"""A call with more of one of them is prepared on a thread, so that the loop stays responsive."""
FAMILIES = ("openai/", "anthropic/", "hosted_vllm/")
"""Providers whose preparation makes no request; others may fetch a token or a list of models first."""
T = TypeVar("T")


class PreparationExecutor(ThreadPoolExecutor):
    """A thread pool that calls LiteLLM's preparation of a short model call at once, on the calling thread."""

    prepared = 0
    """How many calls were prepared on the calling thread."""

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        if not (in_provider_call() and is_short_preparation(function)):
            return super().submit(function, *args, **kwargs)
        future: Future[T] = Future()
        self.prepared += 1
        try:
            future.set_result(function(*args, **kwargs))
        except BaseException as error:  # as a thread of the pool would pass it on
            future.set_exception(error)
        return future


def is_short_preparation(function: Callable[..., Any]) -> bool:
    """Return whether this is LiteLLM's ``completion`` in its context, for a short call of a provider we know."""
    inner = function.args[0] if isinstance(function, partial) and function.args else None
    if not isinstance(inner, partial) or getattr(inner.func, "__name__", "") != "completion":
        return False
    asked = inner.keywords
    return (
        str(asked.get("model")).startswith(FAMILIES)
        and len(asked.get("messages") or ()) <= MAX_MESSAGES
        and len(asked.get("tools") or ()) <= MAX_TOOLS
        and _characters(asked.get("messages")) + _characters(asked.get("tools")) <= MAX_CHARACTERS
    )


def _characters(value: Any) -> int:
    """Return how many characters the texts in this JSON value have."""
    if isinstance(value, str):
        return len(value)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(map(_characters, parts))


_executors: WeakKeyDictionary[asyncio.AbstractEventLoop, PreparationExecutor] = WeakKeyDictionary()


def prepare_on_loop() -> PreparationExecutor:
    """Make the running loop's default executor one that prepares short calls at once, and return it; once a loop."""
    loop = asyncio.get_running_loop()
    executor = _executors.get(loop)
    if executor is None:
        executor = _executors[loop] = PreparationExecutor(thread_name_prefix="callboard-default")
        loop.set_default_executor(executor)
    return executor
