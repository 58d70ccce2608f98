"""The one event loop of a process, on a thread of its own, and the few threads that do its blocking work."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from config.errors import CallboardError, LoopBlocked, OpenedBeforeFork
from config.forks import after_fork, leave_to_parent

log = logging.getLogger(__name__)

STOP_S = 1.0
"""How long the end of a process waits for what the loop is doing."""
P = ParamSpec("P")
T = TypeVar("T")


class ProcessLoop:
    """An event loop that runs until the process ends; plain threads hand it coroutines."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._ready = threading.Event()
        self._writes = ThreadPoolExecutor(1, thread_name_prefix="callboard-write")
        self._reads = ThreadPoolExecutor(4, thread_name_prefix="callboard-read")
        self._waits = ThreadPoolExecutor(16, thread_name_prefix="callboard-wait")
        self._urgent = ThreadPoolExecutor(1, thread_name_prefix="callboard-urgent")
        self.loop: asyncio.AbstractEventLoop = new_event_loop()
        self.loop.set_exception_handler(_say_what_nobody_heard)
        self._thread = threading.Thread(target=self._run, name="callboard-loop", daemon=True)
        self._thread.start()
        self._ready.wait()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start ``work`` on the loop and return its future at once.

        Raises:
            OpenedBeforeFork: the loop's thread is in the process this one was forked from.
        """
        try:
            self.require_own_process()
        except OpenedBeforeFork:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Return the result of ``work``; the calling thread waits.

        Raises:
            LoopBlocked: called on the loop's own thread, where waiting would stop everything.
            OpenedBeforeFork: as ``submit``.
        """
        if self.is_here():
            work.close()
            raise LoopBlocked("waiting for a result")
        return self.submit(work).result(timeout_s)

    def is_here(self) -> bool:
        """Return whether the calling thread is the loop's own."""
        return threading.get_ident() == self._thread.ident

    def require_own_process(self) -> None:
        """Return in the process that started the loop.

        Raises:
            OpenedBeforeFork: this one was forked from it.
        """
        if os.getpid() != self._pid:
            raise OpenedBeforeFork(self._pid)

    def call_soon(self, function: Callable[[], Any]) -> None:
        """Call ``function`` on the loop's thread, soon."""
        self.loop.call_soon_threadsafe(function)

    def stop(self) -> None:
        """Nothing more runs on the loop, and what was under way ends with the process, in silence.

        Called before the interpreter ends: it closes the threads that the loop's tasks hand work to, and each task
        that goes on meanwhile would say on stderr that it "cannot schedule new futures".
        """
        self.loop.set_exception_handler(lambda loop, context: None)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(STOP_S)

    def stack(self) -> str:
        """Return where the loop's thread is now, for people to read; a thread that is stuck stays there."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "".join(traceback.format_stack(frame)) if frame else ""

    def current_task(self) -> str:
        """Return the name of the task the loop works on now; empty between two of them."""
        task = asyncio.current_task(self.loop)
        return task.get_name() if task else ""

    async def write(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what a function that writes to SQL returned; they run one at a time.

        SQLite has one writer anyway, and waiting here costs less than its busy handler's sleeps.
        """
        return await self.loop.run_in_executor(self._writes, lambda: function(*args, **kwargs))

    async def read(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what a function that reads SQL, or otherwise blocks briefly, returned."""
        return await self.loop.run_in_executor(self._reads, lambda: function(*args, **kwargs))

    async def wait(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what a function returned that may have to wait long, as a claim while the database is slow."""
        return await self.loop.run_in_executor(self._waits, lambda: function(*args, **kwargs))

    async def read_first(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """As ``read``, on a thread that no other work keeps busy: for what people wait for, such as a stop."""
        return await self.loop.run_in_executor(self._urgent, lambda: function(*args, **kwargs))

    def widen_writes(self, threads: int) -> None:
        """Let ``threads`` SQL writes run at once, for a database that has many writers."""
        self._writes, old = ThreadPoolExecutor(threads, thread_name_prefix="callboard-write"), self._writes
        old.shutdown(wait=False)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.call_soon(self._ready.set)
        self.loop.run_forever()


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a uvloop where there is one (not on Windows), else asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _say_what_nobody_heard(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error of a task that no other task waits for: one line where the error is an expected condition."""
    wrong = context.get("exception")
    if isinstance(wrong, CallboardError):
        log.warning("a task was left alone with its error: %s [%s]", wrong, wrong.code)
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
    """This process's loop does nothing more, if there is one: the process ends."""
    if _current is not None:
        _current.stop()


@after_fork
def _forget() -> None:
    """A forked child has the parent's object but not its threads."""
    global _current, _starting
    leave_to_parent(_current)
    _current, _starting = None, threading.Lock()
