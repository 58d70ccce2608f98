"""How long a thread waits for Postgres: a stopped server keeps its connections open and never answers.

No setting of the server or the kernel detects that: the server's timers stop with it, and the kernel still acknowledges
data. So each wait has a deadline in this process, after which it closes the connection.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

ANSWER_S = 4.5
"""Seconds a transaction or a read may last while an HTTP client waits; it gets a response within 5 s."""
SILENCE_S = 10.0
"""Seconds for everything else: two thirds of the shortest usual lease, so that a worker without an answer releases its
runs before their leases expire."""


class _Limits(threading.local):
    limit_s = SILENCE_S
    until_s: float | None = None


_of_thread = _Limits()


@contextmanager
def patience(limit_s: float) -> Iterator[None]:
    """Limit each transaction or read of this thread to ``limit_s`` seconds; ``math.inf`` if it may take hours.

    A transaction under way gets the new limit from now on, and the former limit again after the block.
    """
    before, until_s = _of_thread.limit_s, _of_thread.until_s
    _of_thread.limit_s = limit_s
    if until_s is not None:
        _of_thread.until_s = time.monotonic() + limit_s
    try:
        yield
    finally:
        _of_thread.limit_s = before
        _of_thread.until_s = None if until_s is None else max(until_s, time.monotonic() + before)


@contextmanager
def one_limit() -> Iterator[None]:
    """Start one deadline for all statements of this block."""
    before = _of_thread.until_s
    _of_thread.until_s = deadline_s()
    try:
        yield
    finally:
        _of_thread.until_s = before


def deadline_s() -> float:
    """Return this thread's deadline on the monotonic clock."""
    until_s = _of_thread.until_s
    return time.monotonic() + _of_thread.limit_s if until_s is None else until_s
