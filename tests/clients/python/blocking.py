"""The client for event loops, used from plain code, so that each test is written once and runs with both clients."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from callboard_client import AsyncCallboard, Callboard

KINDS = ("plain", "async")


class Blocking:
    """An object of the client for event loops, whose coroutines and streams run on a loop of the test's."""

    def __init__(self, wrapped: Any, runner: asyncio.Runner) -> None:
        self._wrapped = wrapped
        self._runner = runner

    def __repr__(self) -> str:
        return repr(self._wrapped)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._wrapped, name)
        return self._called(value) if inspect.ismethod(value) else self._kept(value)

    def _called(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            result = method(*arguments, **options)
            if inspect.isasyncgen(result):
                return self._iterated(result)
            return self._kept(self._runner.run(result))

        return call

    def _kept(self, value: Any) -> Any:
        return Blocking(value, self._runner) if "Async" in type(value).__name__ else value

    def _iterated(self, events: Any) -> Iterator[Any]:
        try:
            while True:
                yield self._runner.run(anext(events))
        except StopAsyncIteration:
            return
        finally:
            self._runner.run(events.aclose())


@contextmanager
def client_of(kind: str, *arguments: Any, **options: Any) -> Iterator[Callboard]:
    """Yield a client of a kind, with the methods of the one for plain code."""
    if kind == "plain":
        with Callboard(*arguments, **options) as callboard:
            yield callboard
        return
    with asyncio.Runner() as runner:
        wrapped = AsyncCallboard(*arguments, **options)
        yield cast(Callboard, Blocking(wrapped, runner))
        runner.run(wrapped.aclose())
