"""Admission of claims: at most 16 at a time, and none while the database is slow; other workers can take the runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from config.database.errors import DatabaseBusy

AT_ONCE = 16
"""Claims in flight: enough to share a commit, few enough not to delay the commits of running runs."""
PATIENCE_S = 20.0
LOOK_S = 0.05


class Admission:
    """One per process. More runs would slow the database further, until heartbeats are late and leases expire."""

    def __init__(self, delay_s: Callable[[], float], slow_s: float) -> None:
        """``delay_s`` returns the seconds that writes take now; from ``slow_s`` on nothing more is claimed."""
        self._delay_s = delay_s
        self._slow_s = slow_s
        self._places = threading.BoundedSemaphore(AT_ONCE)

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold one of the ``AT_ONCE`` places, and wait for it; to be called on a plain thread.

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
                time.sleep(LOOK_S)  # other threads' commits send no notification
            yield
        finally:
            self._places.release()


def _slow() -> DatabaseBusy:
    return DatabaseBusy("the database is too slow for more runs in this process; the run stays queued.")
