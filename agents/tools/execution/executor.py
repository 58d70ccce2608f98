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
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from agents.errors import ToolTimeout
from agents.tools.call_context import ToolContext, enter_call
from agents.tools.execution.ambiguous_failure import is_ambiguous, is_unsent
from agents.tools.requests import CallAsks, QuestionAsked
from agents.tools.results import to_result, to_result_beside_loop
from agents.tools.tool import Tool
from config.errors import CallboardError, ModelVisible, Permanent, Retryable, ToolCutOff, ToolFailed
from config.forks import after_fork
from config.redaction import redact_start

log = logging.getLogger(__name__)

MAX_THREADS = 64
"""Plain tools that run at once in a process, abandoned ones included, unless ``allow_threads`` says otherwise; the next
one waits for a slot as long as it may run."""
MAX_MESSAGE = 2000
"""Characters of an exception's text that the model is shown."""

_THREAD = "tool "
"""How the name of a thread that runs a plain tool begins."""
_threads = MAX_THREADS
_slots = threading.BoundedSemaphore(MAX_THREADS)
_POLL_S = 0.01


@after_fork
def _renew() -> None:
    """Give a forked child all its slots: the threads that hold some are the parent's."""
    global _slots
    _slots = threading.BoundedSemaphore(_threads)


def allow_threads(number: int) -> None:
    """Let so many plain tools run at once in this process, before any does."""
    global _slots, _threads
    if number != _threads:
        _threads, _slots = number, threading.BoundedSemaphore(number)


async def call_tool(
    tool: Tool,
    arguments: Mapping[str, Any],
    context: ToolContext,
    timeout_s: float,
    on_begin: Callable[[], None] = lambda: None,
) -> Any:
    """Call ``tool`` and return its result as JSON data.

    Cancelling the caller cancels an async tool and abandons a plain one. A plain tool first waits for a slot, at most
    ``timeout_s``; without one it is not called.

    ``on_begin`` is called right before the tool is; until then a call that is cancelled was not made.

    A tool of which many abandoned calls still run is not called either (``agents/tools/execution/executor.py``).

    Raises:
        ToolTimeout: it did not answer within ``timeout_s``.
        ToolCutOff: its connection broke, or timed out, after the request may have arrived.
        ToolFailed: it raised (the message has the exception's type and text, no traceback), or there was no slot.
        ModelVisible: it raised such an error itself.
        CallAsks: it asked a person.
    """
    call = _in_task if tool.is_async else _in_thread
    _require_few_abandoned(tool)
    if not tool.is_async:
        await _take_slot(tool, timeout_s)
    on_begin()
    try:
        async with asyncio.timeout(timeout_s) as limit:
            return await call(tool, dict(arguments), context)
    except TimeoutError as error:
        if not limit.expired():
            raise _failed(tool, error) from error
        problem = f"{tool.name} did not answer within {timeout_s:g} seconds and was given up."
        raise ToolTimeout(problem, timeout_s=timeout_s) from error
    except (ModelVisible, CallAsks):
        raise
    except Exception as error:
        raise _failed(tool, error) from error


def _require_few_abandoned(tool: Tool) -> None:
    refusal = ABANDONED.refusal(tool.name)
    if refusal is not None:
        raise ToolFailed(f"{tool.name} was not called: {refusal}.")


async def check_call(tool: Tool, context: ToolContext, timeout_s: float) -> Any:
    """Return the result of the call with this context's key as JSON data; None where it took no effect.

    Raises:
        ToolTimeout, ToolCutOff, ToolFailed: ``check`` itself failed.
    """
    assert tool.check is not None, "a checkable tool has a check"
    asking = dataclasses.replace(tool, function=partial(tool.check, context.idempotency_key))
    try:
        return await call_tool(asking, {}, context, timeout_s)
    except CallAsks as error:
        raise ToolFailed(f"the check of {tool.name} asked a person; only the tool itself may ask.") from error


def _failed(tool: Tool, error: BaseException) -> ModelVisible:
    kind, text = type(error).__name__, redact_start(_text_of(error), MAX_MESSAGE)
    if is_ambiguous(error):
        return ToolCutOff(f"{kind}: {text}"[:MAX_MESSAGE], kind=kind)
    if isinstance(error, CallboardError):
        failure = ToolFailed(text[:MAX_MESSAGE], kind=kind)
    else:
        log.info("a tool raised", extra={"tool": tool.name, "kind": kind})
        failure = ToolFailed(f"{kind}: {text}"[:MAX_MESSAGE] if text else kind, kind=kind)
    failure.retryable = isinstance(error, Retryable) or is_unsent(error)
    return failure


def is_without_answer(error: ModelVisible) -> bool:
    """Return whether the other side has said nothing about a call that failed with ``error``."""
    return error.retryable or isinstance(error, (ToolTimeout, ToolCutOff))


def is_retryable(error: ModelVisible) -> bool:
    """Return whether a call that failed with ``error`` may succeed later: by its type, never by its text."""
    return is_without_answer(error) and not isinstance(error.__cause__, Permanent)


def _tame(error: BaseException) -> Exception:
    """Return an exception that a task may raise, in place of ``SystemExit``, ``StopIteration`` and the like."""
    if isinstance(error, QuestionAsked):
        return CallAsks(error.text, error.form, error.state)
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
        except (
            SystemExit,
            KeyboardInterrupt,
            QuestionAsked,
        ) as error:  # the first two would end the loop, and every run on it
            raise _tame(error) from error

    task = asyncio.create_task(run(), name=f"tool {tool.name}")
    try:
        # ``wait`` instead of ``await``: a tool that ignores its cancellation must not block the run.
        await asyncio.wait([task])
    finally:
        if not task.done():
            task.cancel()
            task.add_done_callback(_forget)
            ABANDONED.add(tool.name, task.done, after_s=CANCELLED_S)
    if task.cancelled():
        raise RuntimeError("the tool cancelled itself")
    return task.result()


def _forget(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.info("a tool raised after it was given up", extra={"task": task.get_name()})


async def _in_thread(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> Any:
    """Call the tool on a fresh thread that does not keep the process alive, and that frees the caller's slot."""
    answer: Future[tuple[Any, Exception | None]] = Future()
    thread = threading.Thread(
        target=contextvars.copy_context().run,
        args=(_answer, answer, asyncio.get_running_loop(), tool, arguments, context),
        name=f"{_THREAD}{tool.name}",
        daemon=True,
    )
    try:
        thread.start()
    except RuntimeError:  # the machine gives no more threads
        _slots.release()
        raise
    try:
        value, error = await asyncio.wrap_future(answer)
    finally:
        if answer.cancel():
            ABANDONED.add(tool.name, lambda: not thread.is_alive())
            log.warning("tool %s was left behind: its thread continues and keeps its slot until it ends", tool.name)
    if error is not None:
        raise error
    return value


def _answer(
    answer: Future[tuple[Any, Exception | None]],
    loop: asyncio.AbstractEventLoop,
    tool: Tool,
    arguments: dict[str, Any],
    context: ToolContext,
) -> None:
    """Call the tool, free its slot, and answer with the result or error unless the call was given up."""
    value, error = None, None
    try:
        enter_call(context)
        value = to_result(tool.function(**arguments))
    except BaseException as raised:  # also SystemExit: a tool may not end a worker
        error = _tame(raised)
    finally:
        _slots.release()
    if loop.is_closed() and not answer.cancelled():  # no task waits for it
        log.info("a tool answered after its loop had ended", extra={"tool": tool.name})
        return
    with suppress(InvalidStateError):  # given up meanwhile
        answer.set_result((value, error))  # not set_exception(), which takes some kinds for a cancellation


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
            f"{tool.name} was not called: all {_threads} places for tools are taken by calls that do not end."
        ) from error


# --- the calls that were given up and have not ended: a tool with many of them is not called


MAX_OF_TOOL = 8
"""Calls of one tool that may be given up and still run in a process; at this number the tool is not called."""
MAX_OF_PROCESS = 32
"""The same of all tools; at this number none that has such a call is called, so that half of the places stay free."""

CANCELLED_S = 10.0
"""Seconds that a cancelled async tool may take for its end, such as removing a container, before it counts."""


class _Abandoned(NamedTuple):
    tool: str
    has_ended: Callable[[], bool]
    since_s: float
    """The monotonic time from which on it counts."""


class AbandonedCalls:
    """The abandoned calls of a process. Safe for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: list[_Abandoned] = []

    def add(self, tool: str, has_ended: Callable[[], bool], *, after_s: float = 0.0) -> None:
        """Count a call, ``after_s`` seconds from now on, until ``has_ended`` returns True.

        Any thread may ask ``has_ended`` at any time.
        """
        with self._lock:
            self._calls.append(_Abandoned(tool, has_ended, time.monotonic() + after_s))

    def counts(self) -> dict[str, int]:
        """Return the number of calls by tool, those with most calls first."""
        with self._lock:
            self._calls = [call for call in self._calls if not call.has_ended()]
            now_s = time.monotonic()
            return dict(Counter(entry.tool for entry in self._calls if entry.since_s <= now_s).most_common())

    def forget(self) -> None:
        """Count none of the calls any longer."""
        self._lock, self._calls = threading.Lock(), []

    def refusal(self, tool: str) -> str | None:
        """Return why the tool is not called now, as a part of a sentence; None where it may be."""
        if not self._calls:
            return None
        counts = self.counts()
        own, total = counts.get(tool, 0), sum(counts.values())
        if own >= MAX_OF_TOOL or (own and total >= MAX_OF_PROCESS):
            return f"{own} earlier calls of it were given up and have not ended, of {total} in this worker"
        return None


ABANDONED = AbandonedCalls()


@after_fork
def _forget_abandoned() -> None:
    """Forget the calls of the parent, whose threads are not here."""
    ABANDONED.forget()
