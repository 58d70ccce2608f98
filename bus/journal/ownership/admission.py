"""Admission of claims: at most 16 at a time, and none while the database is slow; other workers can take the runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from config.database.errors import DatabaseBusy
from config.settings import Settings
from config.settings.servers import POOL_FLOOR

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


def pool_problem(settings: Settings) -> str | None:
    """Return in what the slots do not fit the pool of connections, as a sentence with the remedy; None if they do.

    A run that begins reads its model and definition on the thread of its slot. Too few connections cost time and no
    run, so this is no error; fewer than ``POOL_FLOOR`` are.
    """
    pool = settings.database_pool_size + settings.database_max_overflow
    beginning = min(settings.slots, AT_ONCE)
    if pool >= POOL_FLOOR + beginning:
        return None
    return (
        f"CALLBOARD_SLOTS ({settings.slots}) lets {beginning} runs begin at once, and a process's {pool} database "
        f"connections (CALLBOARD_DATABASE_POOL_SIZE and CALLBOARD_DATABASE_MAX_OVERFLOW) leave {pool - POOL_FLOOR} for "
        f"them beside its own {POOL_FLOOR}, so runs begin later; allow {POOL_FLOOR + beginning}, or fewer slots."
    )
