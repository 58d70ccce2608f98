"""The pool's threads: as many as there is work for, at most the limit, and none is kept without work."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

import pytest

from bus.thread_pool import IdleThreadsEnd


def until(is_so: Callable[[], bool]) -> None:
    ends = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < ends
        time.sleep(0.001)  # a thread's end has no event


def test_idle_threads_end_and_the_next_work_starts_another() -> None:
    pool = IdleThreadsEnd(8, idle_s=0.02)
    barrier = threading.Barrier(8)
    for future in [pool.submit(barrier.wait) for _ in range(8)]:
        future.result(10)

    until(lambda: not pool._threads)

    assert pool.submit(sum, [1, 2]).result(10) == 3


def test_work_for_one_thread_keeps_one_thread() -> None:
    pool = IdleThreadsEnd(8, idle_s=60)
    first = pool.submit(threading.current_thread).result(10)
    for _ in range(50):
        until(lambda: len(pool._idle) == 1)
        assert pool.submit(threading.current_thread).result(10) is first
    pool.shutdown()


def test_there_are_never_more_threads_than_the_limit_and_the_rest_waits_in_order() -> None:
    pool, go = IdleThreadsEnd(2), threading.Event()
    done: list[int] = []
    blocked = [pool.submit(go.wait, 10) for _ in range(2)]
    waiting = [pool.submit(done.append, number) for number in range(20)]
    assert len(pool._threads) == 2
    assert not done

    go.set()
    assert [future.result(10) for future in blocked] == [True, True]
    for future in waiting:
        future.result(10)
    assert sorted(done) == list(range(20))
    pool.shutdown()


def test_an_error_is_the_futures_and_the_thread_goes_on() -> None:
    pool = IdleThreadsEnd(1)
    failed = pool.submit(sys.exit, "no end of a thread")

    with pytest.raises(SystemExit):
        failed.result(10)
    assert pool.submit(sum, [1]).result(10) == 1
    pool.shutdown()


def test_a_shutdown_waits_for_what_runs_and_cancels_what_waits() -> None:
    pool, started, go = IdleThreadsEnd(1), threading.Event(), threading.Event()

    def work() -> bool:
        started.set()
        return go.wait(10)

    running = pool.submit(work)
    waiting = pool.submit(sum, [1])
    assert started.wait(10)
    threading.Timer(0.05, go.set).start()

    pool.shutdown(cancel_futures=True)

    assert running.done()
    assert waiting.cancelled()
    assert not pool._threads
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(sum, [1])


@pytest.mark.parity
def test_work_that_comes_in_the_moment_a_thread_ends_is_done() -> None:
    """With idle times of about the time between two calls, each of the two outcomes of that race happens often."""
    pool = IdleThreadsEnd(4, idle_s=0.0002)
    futures = []
    for number in range(3000):
        futures.append(pool.submit(sum, [number]))
        time.sleep(0.0002 if number % 3 else 0)  # the scenario

    assert [future.result(10) for future in futures] == list(range(3000))
    until(lambda: not pool._threads)
