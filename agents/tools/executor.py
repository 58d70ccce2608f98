"""Calls tools: each call takes at most its timeout, and a plain tool at most one thread.

An async tool is a task that can be cancelled. A plain one gets a daemon thread, which cannot be stopped from outside
and is abandoned at the timeout. An abandoned thread keeps its slot until the tool returns, so the number of threads is
bounded.
"""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import logging
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from agents.tools.ambiguous_failure import is_ambiguous
from agents.tools.errors import ToolTimeout
from agents.tools.results import to_result, to_result_beside_loop
from agents.tools.tool import Tool, ToolContext, enter_call
from config.errors import CallboardError, ModelVisible, ToolCutOff, ToolFailed
from config.forks import after_fork
from config.redaction import redact_start

log = logging.getLogger(__name__)

MAX_THREADS = 64
"""Plain tools that run at once in a process, abandoned ones included; the next one waits for a slot as long as it may
run."""
MAX_MESSAGE = 2000
"""Characters of an exception's text that the model is shown."""

_THREAD = "tool "
"""How the name of a thread that runs a plain tool begins."""
_slots = threading.BoundedSemaphore(MAX_THREADS)
_POLL_S = 0.01


@after_fork
def _renew() -> None:
    """Give a forked child all its slots: the threads that hold some are the parent's."""
    global _slots
    _slots = threading.BoundedSemaphore(MAX_THREADS)


async def call_tool(tool: Tool, arguments: Mapping[str, Any], context: ToolContext, timeout_s: float) -> Any:
    """Call ``tool`` and return its result as JSON data.

    Cancelling the caller cancels an async tool and abandons a plain one.

    A plain tool first waits for a slot, at most ``timeout_s``; without one it is not called.

    Raises:
        ToolTimeout: it did not answer within ``timeout_s``.
        ToolCutOff: its connection broke, or timed out, after the request may have arrived.
        ToolFailed: it raised (the message has the exception's type and text, no traceback), or there was no slot.
        ModelVisible: it raised such an error itself.
    """
    call = _in_task if tool.is_async else _in_thread
    if not tool.is_async:
        await _take_slot(tool, timeout_s)
    try:
        async with asyncio.timeout(timeout_s) as limit:
            return await call(tool, dict(arguments), context)
    except TimeoutError as error:
        if not limit.expired():
            raise _failed(tool, error) from error
        raise ToolTimeout(
            f"{tool.name} did not answer within {timeout_s:g} seconds and was given up.", timeout_s=timeout_s
        ) from error
    except ModelVisible:
        raise
    except Exception as error:
        raise _failed(tool, error) from error


async def check_call(tool: Tool, context: ToolContext, timeout_s: float) -> Any:
    """Return the result of the call with this context's key as JSON data; None where it took no effect.

    Raises:
        ToolTimeout, ToolCutOff, ToolFailed: ``check`` itself failed.
    """
    assert tool.check is not None, "a checkable tool has a check"
    asking = dataclasses.replace(tool, function=partial(tool.check, context.idempotency_key))
    return await call_tool(asking, {}, context, timeout_s)


def _failed(tool: Tool, error: BaseException) -> ModelVisible:
    text = redact_start(_text_of(error), MAX_MESSAGE)
    if is_ambiguous(error):
        return ToolCutOff(f"{type(error).__name__}: {text}"[:MAX_MESSAGE], kind=type(error).__name__)
    if isinstance(error, CallboardError):
        return ToolFailed(text[:MAX_MESSAGE], kind=type(error).__name__)
    kind = type(error).__name__
    log.info("a tool raised", extra={"tool": tool.name, "kind": kind})
    return ToolFailed(f"{kind}: {text}"[:MAX_MESSAGE] if text else kind, kind=kind)


def _tame(error: BaseException) -> Exception:
    """Return an exception that a future accepts, in place of ``SystemExit``, ``StopIteration`` and the like."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"{type(error).__name__}: {_text_of(error)}")


def _text_of(error: BaseException) -> str:
    """Return the exception's text without lone surrogates; a tool's class may fail to give one."""
    try:
        return str(error).encode("utf-8", "replace").decode()
    except Exception:
        return "its text cannot be read"


async def _in_task(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> Any:
    async def run() -> Any:
        enter_call(context)
        try:
            return await to_result_beside_loop(await tool.function(**arguments))
        except (SystemExit, KeyboardInterrupt) as error:  # would end the loop, and every run on it
            raise _tame(error) from error

    task = asyncio.create_task(run(), name=f"tool {tool.name}")
    try:
        # ``wait`` instead of ``await``: a tool that ignores its cancellation must not block the run.
        await asyncio.wait([task])
    finally:
        if not task.done():
            task.cancel()
            task.add_done_callback(_forget)
    if task.cancelled():
        raise RuntimeError("the tool cancelled itself")
    return task.result()


def _forget(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.info("a tool raised after it was given up", extra={"task": task.get_name()})


async def _in_thread(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> Any:
    """Call the tool on a thread; the caller has taken a slot, which the thread frees."""
    call = _ThreadCall(tool, asyncio.get_running_loop())
    call.start(tool.function, arguments, context)
    try:
        return await call.answer
    finally:
        call.abandon()


async def _take_slot(tool: Tool, timeout_s: float) -> None:
    """Take one of the process's slots for plain tools.

    Raises:
        ToolFailed: none became free within ``timeout_s``; the tool was not called.
    """
    try:
        async with asyncio.timeout(timeout_s):
            while not _slots.acquire(blocking=False):
                await asyncio.sleep(_POLL_S)
    except TimeoutError as error:
        names = sorted({thread.name for thread in threading.enumerate() if thread.name.startswith(_THREAD)})
        log.error("every place for plain tools is taken; at work: %s", ", ".join(names)[:500])
        raise ToolFailed(
            f"{tool.name} was not called: all {MAX_THREADS} places for tools are taken by calls that do not end."
        ) from error


class _ThreadCall:
    """One plain tool on its own thread, which returns its slot when the tool returns."""

    def __init__(self, tool: Tool, loop: asyncio.AbstractEventLoop) -> None:
        self._tool = tool
        self._loop = loop
        self._left = False
        self._lock = threading.Lock()
        self.answer: asyncio.Future[Any] = loop.create_future()

    def start(self, function: Callable[..., Any], arguments: dict[str, Any], context: ToolContext) -> None:
        """Begin the call on a fresh thread that does not keep the process alive."""
        variables = contextvars.copy_context()
        thread = threading.Thread(
            target=variables.run,
            args=(self._run, function, arguments, context),
            name=f"{_THREAD}{self._tool.name}",
            daemon=True,
        )
        try:
            thread.start()
        except RuntimeError:  # the machine gives no more threads
            self._leave()
            _slots.release()
            raise

    def abandon(self) -> None:
        """Abandon the thread if it still runs; it keeps its slot until the tool returns."""
        if self._leave():
            log.warning(
                "tool %s was left behind: its thread continues and keeps its slot until it ends", self._tool.name
            )

    def _run(self, function: Callable[..., Any], arguments: dict[str, Any], context: ToolContext) -> None:
        try:
            self._call(function, arguments, context)
        finally:
            _slots.release()

    def _call(self, function: Callable[..., Any], arguments: dict[str, Any], context: ToolContext) -> None:
        enter_call(context)
        value: Any = None
        error: BaseException | None = None
        try:
            value = to_result(function(**arguments))
        except BaseException as raised:  # also SystemExit: a tool may not end a worker
            error = _tame(raised)
        if self._leave():
            try:
                self._loop.call_soon_threadsafe(self._settle, value, error)
            except RuntimeError:  # the loop ended meanwhile, so no task waits for it
                log.info("a tool answered after its loop had ended", extra={"tool": self._tool.name})

    def _settle(self, value: Any, error: BaseException | None) -> None:
        if self.answer.done():
            return
        if error is not None:
            self.answer.set_exception(error)
        else:
            self.answer.set_result(value)

    def _leave(self) -> bool:
        """Mark the call as ended or given up; returns whether this was the first time."""
        with self._lock:
            first, self._left = not self._left, True
        return first
