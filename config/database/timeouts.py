"""How long a thread waits for Postgres: a server that is stopped keeps its connections and says nothing, for ever.

No setting of the server or the kernel helps there: timers of the server stand still with it, and the kernel goes on
to acknowledge what it is sent. So each wait has an end here, and the connection is closed then.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

ANSWER_S = 4.5
"""Seconds a transaction or a read may last while a client waits for a response; it has one within 5 s."""
SILENCE_S = 10.0
"""The same for everything else. Two thirds of the shortest usual lease: a worker without an answer has given its runs
up by then."""


class _Limits(threading.local):
    limit_s = SILENCE_S
    until_s: float | None = None


_of_thread = _Limits()


@contextmanager
def patience(limit_s: float) -> Iterator[None]:
    """Let each transaction or read of this thread last ``limit_s`` seconds; ``math.inf`` where it may take hours.

    One that has begun may last so long from now, and as long as one outside of this block behind it.
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
    """Count the limit from now, for everything that is asked in this block together."""
    before = _of_thread.until_s
    _of_thread.until_s = deadline_s()
    try:
        yield
    finally:
        _of_thread.until_s = before


def deadline_s() -> float:
    """Return until when this thread waits for an answer, on the monotonic clock."""
    until_s = _of_thread.until_s
    return time.monotonic() + _of_thread.limit_s if until_s is None else until_s
