"""How long a thread waits for the database: in one transaction or read, and for one request.

A stopped Postgres keeps its connections open and never answers. No setting of the server or the kernel detects that:
the server's timers stop with it, and the kernel still acknowledges data. So each wait has a deadline in this process,
after which it closes the connection.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from config.database.errors import DatabaseBusy

ANSWER_S = 4.5
"""Seconds a transaction or a read may last while an HTTP client waits; it gets a response within 5 s."""
SILENCE_S = 10.0
"""Seconds for everything else: two thirds of the shortest usual lease, so that a worker without an answer releases its
runs before their leases expire."""


class _Limits(threading.local):
    limit_s = SILENCE_S
    until_s: float | None = None
    end_s: float = math.inf
    """When the work for one request has to have ended, on the monotonic clock."""


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
def time_limit(limit_s: float, since_s: float | None = None) -> Iterator[None]:
    """Limit all that this thread waits for in the block to ``limit_s`` seconds together, counted from ``since_s``."""
    before = _of_thread.end_s
    _of_thread.end_s = min(before, (time.monotonic() if since_s is None else since_s) + limit_s)
    try:
        yield
    finally:
        _of_thread.end_s = before


@contextmanager
def not_counted() -> Iterator[None]:
    """Do not count the time of this block for ``time_limit``; it has a limit of its own."""
    began_s, end_s = time.monotonic(), _of_thread.end_s
    _of_thread.end_s = math.inf
    try:
        yield
    finally:
        _of_thread.end_s = end_s + time.monotonic() - began_s


def left_s() -> float:
    """Return the seconds that are left of ``time_limit``: none or more, ``math.inf`` where there is no limit."""
    return max(0.0, _of_thread.end_s - time.monotonic())


@contextmanager
def one_limit() -> Iterator[None]:
    """Start one deadline for all statements of this block.

    Raises:
        DatabaseBusy: no time is left of ``time_limit``; nothing was begun.
    """
    if not left_s():
        raise DatabaseBusy("the request has no time left (CALLBOARD_REQUEST_TIMEOUT_S); try again in a moment.")
    before = _of_thread.until_s
    _of_thread.until_s = deadline_s()
    try:
        yield
    finally:
        _of_thread.until_s = before


def deadline_s() -> float:
    """Return this thread's deadline on the monotonic clock."""
    until_s = _of_thread.until_s
    return min(_of_thread.end_s, time.monotonic() + _of_thread.limit_s if until_s is None else until_s)
