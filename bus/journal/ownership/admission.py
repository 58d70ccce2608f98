"""Admission of claims: a few at a time, and none while the database is slow; runs that wait stay queued for others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from config.errors import DatabaseBusy

AT_ONCE = 16
"""Claims on their way to the database: enough to share a commit, and few enough not to crowd out the runs at work."""
PATIENCE_S = 20.0
LOOK_S = 0.05


class Admission:
    """One a process. More work would make a slow database slower, until heartbeats are late and runs are lost."""

    def __init__(self, delay_s: Callable[[], float], slow_s: float) -> None:
        """``delay_s`` returns how long writes take now; from ``slow_s`` on nothing more is claimed."""
        self._delay_s = delay_s
        self._slow_s = slow_s
        self._places = threading.BoundedSemaphore(AT_ONCE)

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold one of the places; for a plain thread, which waits.

        Raises:
            DatabaseBusy: the database stayed slow for ``PATIENCE_S``.
        """
        ends_s = time.monotonic() + PATIENCE_S
        if not self._places.acquire(timeout=PATIENCE_S):
            raise _slow()
        try:
            while self._delay_s() >= self._slow_s:
                if time.monotonic() >= ends_s:
                    raise _slow()
                time.sleep(LOOK_S)  # nothing tells that a commit of another thread is through
            yield
        finally:
            self._places.release()


def _slow() -> DatabaseBusy:
    return DatabaseBusy("the database is too slow for more runs in this process; the run stays queued.")
