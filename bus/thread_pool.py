"""Celery's pool of threads, whose threads end when they have had no work for a while.

A task holds a thread for as long as its run takes, and Celery's own pool ends none: after a busy hour a worker would
keep as many threads as it has slots.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

from celery.concurrency.thread import TaskPool

IDLE_S = 15.0
"""Seconds without work after which a thread ends."""
P = ParamSpec("P")
T = TypeVar("T")
_Work = Callable[[], None]


class ThreadPool(TaskPool):  # type: ignore[misc]  # celery has no types
    """Celery's ``threads`` pool on an executor whose idle threads end."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.executor = IdleThreadsEnd(self.limit)  # Celery's has not started a thread yet


class IdleThreadsEnd(Executor):
    """Calls functions on at most ``limit`` threads; a thread ends after ``idle_s`` seconds without work.

    The thread that was idle for the shortest time takes the next function, so that a small load keeps few threads.
    """

    def __init__(self, limit: int, idle_s: float = IDLE_S) -> None:
        self._limit = limit
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()  # Celery's statistics count them
        self._idle: list[SimpleQueue[_Work | None]] = []  # one of each idle thread, the longest idle first
        self._backlog: deque[tuple[_Work, Future[Any]]] = deque()
        self._is_shut = False

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        work = partial(_call, future, partial(function, *args, **kwargs))
        with self._lock:
            if self._is_shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if self._idle:
                self._idle.pop().put(work)
            elif len(self._threads) < self._limit:
                self._start(work)
            else:
                self._backlog.append((work, future))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with self._lock:
            self._is_shut = True
            if cancel_futures:
                for _work, future in self._backlog:
                    future.cancel()
            for idle in self._idle:
                idle.put(None)
            self._idle.clear()
            threads = list(self._threads)
        if wait:
            for thread in threads:
                thread.join()

    def _start(self, work: _Work) -> None:
        thread = threading.Thread(target=self._run, args=(work,), name="callboard-task", daemon=True)
        self._threads.add(thread)
        try:
            thread.start()
        except BaseException:  # the machine gives no more threads
            self._threads.discard(thread)
            raise

    def _run(self, work: _Work | None) -> None:
        queue: SimpleQueue[_Work | None] = SimpleQueue()
        while work is not None:
            work()
            del work  # what it refers to is freed while this thread waits
            work = self._next(queue)
        with self._lock:
            self._threads.discard(threading.current_thread())

    def _next(self, queue: SimpleQueue[_Work | None]) -> _Work | None:
        """Return this thread's next work, which may come through ``queue``; None where the thread has to end."""
        with self._lock:
            if self._backlog:
                return self._backlog.popleft()[0]
            if self._is_shut:
                return None
            self._idle.append(queue)
        with suppress(Empty):
            return queue.get(timeout=self._idle_s)
        with self._lock:
            if queue in self._idle:
                self._idle.remove(queue)
                return None
        return queue.get()  # work came in the moment the time was over


def _call(future: Future[T], function: Callable[[], T]) -> None:
    """Call a function and put what it returns, or raises, into its future."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(function())
    except BaseException as error:  # the thread continues
        future.set_exception(error)
