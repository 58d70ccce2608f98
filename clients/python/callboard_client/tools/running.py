"""Runs the calls of tools: each plain function on a thread of its own, async ones on one event loop."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from callboard_client.tools.described import Tool
from callboard_client.tools.values import Misfit

log = logging.getLogger(__name__)

MAX_THREADS = 64
"""Plain functions that run at once, those included whose callers no longer wait; the next call waits for a place."""
MAX_MESSAGE = 2000
"""Characters of an exception's text that the client gets."""
_key: ContextVar[str | None] = ContextVar("callboard_idempotency_key", default=None)


def idempotency_key() -> str | None:
    """Return the idempotency key of the present call: the same for all repetitions of one step of a run.

    None outside a call, and where the client sends none.
    """
    return _key.get()


class CallFailed(Exception):
    """A call has no result; the message says why, for the model."""


class CallTimedOut(Exception):
    """A call took longer than its tool may, so that its outcome is not known; the message says so."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One call of a tool."""

    tool: Tool
    arguments: Mapping[str, Any]
    """As they came: JSON data."""
    key: str | None = None
    """The idempotency key that the client sent."""
    began: threading.Event = field(default_factory=threading.Event)
    """Set once the function runs."""


class Calls:
    """The calls under way, by the ids of their requests. Its methods are for one thread, the reader's."""

    def __init__(self) -> None:
        self._open: dict[Any, Future[None]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._places = asyncio.Semaphore(MAX_THREADS)

    def __contains__(self, request_id: Any) -> bool:
        return request_id in self._open

    def start(self, request_id: Any, call: Call, answer: Callable[[Any, Exception | None], None]) -> None:
        """Start a call; ``answer`` gets its value or its error, on another thread, unless the call is cancelled."""
        running = asyncio.run_coroutine_threadsafe(self._answered(call, answer), self._running_loop())
        self._open[request_id] = running
        running.add_done_callback(lambda _: self._open.pop(request_id, None))

    def cancel(self, request_id: Any) -> None:
        """Give a call up: it is not answered. An async function is cancelled; a plain one runs to its end."""
        running = self._open.get(request_id)
        if running is not None:
            running.cancel()

    async def _answered(self, call: Call, answer: Callable[[Any, Exception | None], None]) -> None:
        _key.set(call.key)
        try:
            value = await self._value(call)
        except Misfit as misfit:
            answer(None, CallFailed(f"the arguments of {call.tool.name} do not fit: {misfit}."))
        except (CallFailed, CallTimedOut) as failed:
            answer(None, failed)
        else:
            answer(value, None)

    async def _value(self, call: Call) -> Any:
        """Return what the tool returned.

        Raises:
            Misfit: the arguments do not fit.
            CallFailed: it raised, or there was no place for it.
            CallTimedOut: it took too long.
        """
        try:
            values = call.tool.read(call.arguments)
        except Misfit:
            raise
        except Exception as error:  # of a class of the user's that is made of an argument
            raise failure(call.tool, error) from error
        run = self._awaited if call.tool.is_async else self._on_a_thread
        task = asyncio.create_task(run(call, partial(call.tool.function, **values)))
        try:
            # ``wait`` instead of ``await``: a function that ignores its cancellation does not hold up the answer.
            await asyncio.wait([task], timeout=call.tool.timeout_s)
        finally:
            if not task.done():
                task.cancel()
                task.add_done_callback(_forget)
        if not task.done():
            raise _overdue(call)
        if task.cancelled():
            raise CallFailed("CancelledError: the function cancelled itself")
        return task.result()

    async def _awaited(self, call: Call, function: Callable[[], Any]) -> Any:
        call.began.set()
        try:
            return await function()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # also SystemExit, which would end the loop and every call on it
            raise failure(call.tool, error) from error

    async def _on_a_thread(self, call: Call, function: Callable[[], Any]) -> Any:
        await self._places.acquire()
        loop, ended = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()

        def close(value: Any, error: BaseException | None) -> None:
            self._places.release()
            if not ended.done():
                ended.set_result((value, error))

        def work() -> None:
            outcome: tuple[Any, BaseException | None]
            try:
                outcome = function(), None
            except BaseException as raised:  # also SystemExit, which would end the thread without an answer
                outcome = None, raised
            with suppress(RuntimeError):  # the process is ending
                loop.call_soon_threadsafe(close, *outcome)

        call.began.set()
        target = partial(contextvars.copy_context().run, work)
        try:
            threading.Thread(target=target, name=f"tool {call.tool.name}", daemon=True).start()
        except RuntimeError as error:
            self._places.release()
            raise CallFailed(f"{call.tool.name} was not called: the machine gives no more threads.") from error
        value, raised = await ended
        if raised is not None:
            raise failure(call.tool, raised) from raised
        return await self._awaited(call, lambda: value) if inspect.isawaitable(value) else value

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop of async functions; it runs on a thread of its own from the first call on."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="async tools", daemon=True).start()
        return self._loop


def failure(tool: Tool, error: BaseException) -> CallFailed:
    """Return what the client learns of an exception: its type and text. The traceback goes to the log."""
    log.error("tool %s raised", tool.name, exc_info=error)
    kind = type(error).__name__
    try:
        text = str(error)
    except Exception:  # a class of the user's may fail to give one
        text = "its text cannot be read"
    return CallFailed(f"{kind}: {text}"[:MAX_MESSAGE] if text else kind)


def _overdue(call: Call) -> Exception:
    name, limit = call.tool.name, f"{call.tool.timeout_s:g} seconds"
    if call.began.is_set():
        return CallTimedOut(f"{name} did not answer within {limit}; it is not known what it did.")
    return CallFailed(f"{name} was not called: all {MAX_THREADS} places were taken for {limit}.")


def _forget(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()  # read, so that the loop does not report it
