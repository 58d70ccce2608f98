"""Calling a tool so that whatever it does costs at most one thread and its own time.

An async tool is a task that is cancelled; a plain one gets a daemon thread that can only be left
behind, since no thread can be stopped from outside. A thread that was left behind keeps its place until the
tool returns, so the number of threads has a bound whatever tools do.
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

from agents.tools.cut_off import leaves_open
from agents.tools.results import to_result
from agents.tools.tool import Tool, ToolContext, enter_call
from config.errors import CallboardError, ModelVisible, ToolCutOff, ToolFailed, ToolTimeout
from config.forks import after_fork
from config.redaction import redact_start

log = logging.getLogger(__name__)

MAX_THREADS = 64
"""Plain tools that may run at once in a process, those left behind included; the next one waits for a place as long
as it may run."""
MAX_MESSAGE = 2000
"""Characters of an exception's text the model is told."""

_THREAD = "tool "
"""How the name of a thread that runs a plain tool begins."""
_places = threading.BoundedSemaphore(MAX_THREADS)
_POLL_S = 0.01


@after_fork
def _renew() -> None:
    """The threads that had places are the parent's."""
    global _places
    _places = threading.BoundedSemaphore(MAX_THREADS)


async def call_tool(tool: Tool, arguments: Mapping[str, Any], context: ToolContext, timeout_s: float) -> Any:
    """Return what ``tool`` answered, as JSON data.

    Cancelling the caller cancels an async tool and abandons a plain one.

    A plain tool first waits for a place, at most ``timeout_s``; without one it is not called.

    Raises:
        ToolTimeout: it did not answer within ``timeout_s``.
        ToolCutOff: its connection broke, or timed out, after the request may have arrived.
        ToolFailed: it raised; type and text of the exception, never its traceback. Or it had no place.
        ModelVisible: it raised one of ours, passed on as it is.
    """
    call = _in_task if tool.is_async else _in_thread
    if not tool.is_async:
        await _take_a_place(tool, timeout_s)
    try:
        async with asyncio.timeout(timeout_s) as limit:
            return await call(tool, dict(arguments), context)
    except TimeoutError as wrong:
        if not limit.expired():
            raise _failed(tool, wrong) from wrong
        raise ToolTimeout(
            f"{tool.name} did not answer within {timeout_s:g} seconds and was given up.", timeout_s=timeout_s
        ) from wrong
    except ModelVisible:
        raise
    except Exception as wrong:
        raise _failed(tool, wrong) from wrong


async def check_call(tool: Tool, context: ToolContext, timeout_s: float) -> Any:
    """Return what the call with this context's key came to, as JSON data; None when it never took effect.

    Raises:
        ToolTimeout, ToolCutOff, ToolFailed: that could not be found out.
    """
    assert tool.check is not None, "a checkable tool has a check"
    asking = dataclasses.replace(tool, function=partial(tool.check, context.idempotency_key))
    return await call_tool(asking, {}, context, timeout_s)


def _failed(tool: Tool, wrong: BaseException) -> ModelVisible:
    text = redact_start(_text_of(wrong), MAX_MESSAGE)
    if leaves_open(wrong):
        return ToolCutOff(f"{type(wrong).__name__}: {text}"[:MAX_MESSAGE], kind=type(wrong).__name__)
    if isinstance(wrong, CallboardError):
        return ToolFailed(text[:MAX_MESSAGE], kind=type(wrong).__name__)
    kind = type(wrong).__name__
    log.info("a tool raised", extra={"tool": tool.name, "kind": kind})
    return ToolFailed(f"{kind}: {text}"[:MAX_MESSAGE] if text else kind, kind=kind)


def _tame(wrong: BaseException) -> Exception:
    """Return an exception that a future can hold and that ends nothing but this call."""
    if isinstance(wrong, Exception) and not isinstance(wrong, StopIteration):
        return wrong
    return RuntimeError(f"{type(wrong).__name__}: {_text_of(wrong)}")


def _text_of(wrong: BaseException) -> str:
    """Return the exception's text as whole characters; a class of the tool's may not even have one."""
    try:
        return str(wrong).encode("utf-8", "replace").decode()
    except Exception:
        return "its text cannot be read"


async def _in_task(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> Any:
    async def run() -> Any:
        enter_call(context)
        try:
            return to_result(await tool.function(**arguments))
        except (SystemExit, KeyboardInterrupt) as wrong:  # would end the loop, and every run on it
            raise _tame(wrong) from wrong

    task = asyncio.create_task(run(), name=f"tool {tool.name}")
    try:
        # Waited for and not awaited: a tool that swallows its cancellation must not hold the run.
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
    """Call the tool on a thread; the caller took a place, which the thread gives back."""
    call = _ThreadCall(tool, asyncio.get_running_loop())
    call.start(tool.function, arguments, context)
    try:
        return await call.answer
    finally:
        call.abandon()


async def _take_a_place(tool: Tool, timeout_s: float) -> None:
    """Take one of the process's places for plain tools.

    Raises:
        ToolFailed: none became free within ``timeout_s``; the tool was not called.
    """
    try:
        async with asyncio.timeout(timeout_s):
            while not _places.acquire(blocking=False):
                await asyncio.sleep(_POLL_S)
    except TimeoutError as wrong:
        names = sorted({thread.name for thread in threading.enumerate() if thread.name.startswith(_THREAD)})
        log.error("every place for plain tools is taken; at work: %s", ", ".join(names)[:500])
        raise ToolFailed(
            f"{tool.name} was not called: all {MAX_THREADS} places for tools are taken by calls that do not end."
        ) from wrong


class _ThreadCall:
    """One plain tool on its own thread, which gives its place back when the tool returns."""

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
            _places.release()
            raise

    def abandon(self) -> None:
        """Stop listening if the thread is still at it; it keeps its place until the tool returns."""
        if self._leave():
            log.warning(
                "tool %s was left behind: its thread goes on and keeps its place until it ends", self._tool.name
            )

    def _run(self, function: Callable[..., Any], arguments: dict[str, Any], context: ToolContext) -> None:
        try:
            self._call(function, arguments, context)
        finally:
            _places.release()

    def _call(self, function: Callable[..., Any], arguments: dict[str, Any], context: ToolContext) -> None:
        enter_call(context)
        value: Any = None
        wrong: BaseException | None = None
        try:
            value = to_result(function(**arguments))
        except BaseException as raised:  # also SystemExit: a tool may not end a worker
            wrong = _tame(raised)
        if self._leave():
            try:
                self._loop.call_soon_threadsafe(self._settle, value, wrong)
            except RuntimeError:  # the loop ended meanwhile; there is nobody to tell
                log.info("a tool answered after its loop had ended", extra={"tool": self._tool.name})

    def _settle(self, value: Any, wrong: BaseException | None) -> None:
        if self.answer.done():
            return
        if wrong is not None:
            self.answer.set_exception(wrong)
        else:
            self.answer.set_result(value)

    def _leave(self) -> bool:
        """Mark the call as ended or given up; returns whether this was the first time."""
        with self._lock:
            first, self._left = not self._left, True
        return first
