"""The event loop of a process, on its own thread, and the executors for its blocking work."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context
from typing import Any, ParamSpec, TypeVar

from bus.errors import LOOP_BLOCKED, OpenedBeforeFork
from config.errors import CallboardError
from config.forks import after_fork, leave_to_parent
from config.tracing import in_trace

log = logging.getLogger(__name__)

STOP_S = 1.0
"""How long the end of a process waits for the loop."""
LOOKUP_THREADS = 64
"""Concurrent DNS lookups of a process: with libuv's default of four threads, four names whose server does not answer
block every other lookup. libuv starts all of them at the first lookup and ends none; each takes 8 KB of memory."""
P = ParamSpec("P")
T = TypeVar("T")


class ProcessLoop:
    """An event loop that runs until the process ends; other threads submit coroutines to it.

    These begin in empty contexts: what they start may live long, and would log for the request that came first.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._ready = threading.Event()
        self._writes = ThreadPoolExecutor(1, thread_name_prefix="callboard-write")
        self._reads = ThreadPoolExecutor(4, thread_name_prefix="callboard-read")
        self._waits = ThreadPoolExecutor(16, thread_name_prefix="callboard-wait")
        self._urgent = ThreadPoolExecutor(1, thread_name_prefix="callboard-urgent")
        self.loop: asyncio.AbstractEventLoop = new_event_loop()
        self.loop.set_exception_handler(_log_unhandled)
        self._thread = threading.Thread(target=self._run, name="callboard-loop", daemon=True)
        self._thread.start()
        self._ready.wait()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start ``work`` on the loop and return its future at once.

        Raises:
            OpenedBeforeFork: the loop's thread is in the parent of this forked process.
        """
        try:
            self.require_own_process()
        except OpenedBeforeFork:
            work.close()
            raise
        return Context().run(asyncio.run_coroutine_threadsafe, work, self.loop)

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Return the result of ``work``; the calling thread waits.

        Raises:
            LOOP_BLOCKED: called on the loop's own thread, which waiting would block.
            OpenedBeforeFork: as ``submit``.
        """
        if self.is_loop_thread():
            work.close()
            raise LOOP_BLOCKED(what="waiting for a result")
        return self.submit(work).result(timeout_s)

    def is_loop_thread(self) -> bool:
        """Return whether the calling thread is the loop's own."""
        return threading.get_ident() == self._thread.ident

    def require_own_process(self) -> None:
        """Return if this process started the loop.

        Raises:
            OpenedBeforeFork: this process is a fork of it.
        """
        if os.getpid() != self._pid:
            raise OpenedBeforeFork(opened_by=self._pid)

    def call_soon(self, function: Callable[[], Any]) -> None:
        """Call ``function`` on the loop's thread, soon."""
        self.loop.call_soon_threadsafe(function, context=Context())

    def stop(self) -> None:
        """Stop the loop silently; its tasks end with the process.

        Called before the interpreter exits, which shuts down the executors: each task that still ran would print
        "cannot schedule new futures" to stderr.
        """
        self.loop.set_exception_handler(lambda loop, context: None)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(STOP_S)

    def stack(self) -> str:
        """Return the formatted stack of the loop's thread."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "".join(traceback.format_stack(frame)) if frame else ""

    def current_task(self) -> str:
        """Return the name of the running task; empty between two tasks."""
        task = asyncio.current_task(self.loop)
        return task.get_name() if task else ""

    async def write(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of a function that writes to SQL; they run one at a time.

        SQLite has one writer anyway, and waiting here is cheaper than its busy handler's sleeps.
        """
        return await self.loop.run_in_executor(self._writes, in_trace(function, *args, **kwargs))

    async def read(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of a function that reads SQL or blocks briefly otherwise."""
        return await self.loop.run_in_executor(self._reads, in_trace(function, *args, **kwargs))

    async def wait(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of a function that may block for long, such as a claim while the database is slow."""
        return await self.loop.run_in_executor(self._waits, in_trace(function, *args, **kwargs))

    async def read_first(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do the same as ``read`` on a reserved thread, for what users wait for, such as a stop."""
        return await self.loop.run_in_executor(self._urgent, in_trace(function, *args, **kwargs))

    def widen_writes(self, threads: int) -> None:
        """Allow ``threads`` concurrent SQL writes, for a database with many writers."""
        self._writes, old = ThreadPoolExecutor(threads, thread_name_prefix="callboard-write"), self._writes
        old.shutdown(wait=False)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.call_soon(self._ready.set)
        self.loop.run_forever()


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a uvloop if it is installed (not on Windows), else asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    os.environ.setdefault("UV_THREADPOOL_SIZE", str(LOOKUP_THREADS))  # libuv reads it at its first look-up
    return uvloop.new_event_loop()


def _log_unhandled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error of a task that no other task awaits: one line if the error is an expected condition."""
    error = context.get("exception")
    if isinstance(error, CallboardError):
        log.warning("a background task failed: %s [%s]", error, error.code)
    else:
        loop.default_exception_handler(context)


_current: ProcessLoop | None = None
_starting = threading.Lock()


def process_loop() -> ProcessLoop:
    """Return this process's loop, started on first use."""
    global _current
    with _starting:
        if _current is None:
            _current = ProcessLoop()
        return _current


def stop_process_loop() -> None:
    """Stop this process's loop, if there is one, before the process ends."""
    if _current is not None:
        _current.stop()


@after_fork
def _forget() -> None:
    """Reset the loop in a forked child, which has the parent's object but not its threads."""
    global _current, _starting
    leave_to_parent(_current)
    _current, _starting = None, threading.Lock()
