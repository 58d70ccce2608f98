"""The slots of a worker process: they limit how many runs it works on at once, from messages and polls alike."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from config.forks import after_fork


class SlotPool:
    """The slots that the message handler and the poller share; safe for any thread."""

    def __init__(self, number: int) -> None:
        self._free = number
        self._lock = threading.Lock()
        self._deferred: set[str] = set()
        self._quarantined: str | None = None
        self._suspects: set[str] = set()  # runs that wait for the quarantine
        self.is_closed = False
        """Whether this process drains, so that no run is taken any more."""
        self.on_deferred: Callable[[], None] = lambda: None
        """Called when a slot is free again for a run that was deferred."""
        self.on_refused: Callable[[str], None] = lambda run_id: None
        """Called with the id of each run that came after the pool was closed."""

    @property
    def free(self) -> int:
        """Number of runs that can be taken now."""
        with self._lock:
            return 0 if self.is_closed else self._free

    def take(self, run_id: str) -> bool:
        """Take a slot for this run and return whether there was one."""
        with self._lock:
            if not self.is_closed and self._free > 0:
                self._free -= 1
                self._deferred.discard(run_id)
                return True
            if not self.is_closed:
                self._deferred.add(run_id)
                return False
        self.on_refused(run_id)
        return False

    def give_back(self) -> None:
        with self._lock:
            self._free += 1
            is_wanted = bool(self._deferred)
        if is_wanted:
            self.on_deferred()

    def want(self, run_id: str) -> None:
        """Make this process's poller take a run as soon as there is a slot, before other pollers see it twice."""
        with self._lock:
            if self.is_closed:
                return
            self._deferred.add(run_id)
        self.on_deferred()

    def deferred(self) -> set[str]:
        """Return and forget the runs that found no slot or were passed to ``want`` since the last call."""
        with self._lock:
            found, self._deferred = self._deferred, set()
            return found

    def close(self) -> None:
        """Take no more runs."""
        with self._lock:
            self.is_closed = True

    def quarantine(self, run_id: str) -> bool:
        """Reserve the process for a suspect run; return False where it is reserved for another one.

        Two suspects never share a process: otherwise the crash of one could end the other as ``dead``.
        """
        with self._lock:
            is_free = self._quarantined is None
            if is_free:
                self._quarantined = run_id
            else:
                self._suspects.add(run_id)
            return is_free

    def end_quarantine(self, run_id: str) -> None:
        """End the reservation, so that the next suspect can be taken at once."""
        with self._lock:
            if self._quarantined != run_id:
                return
            self._quarantined = None
            self._deferred |= self._suspects
            is_wanted = bool(self._suspects)
            self._suspects = set()
        if is_wanted:
            self.on_deferred()

    @contextmanager
    def slot_for(self, run_id: str) -> Iterator[bool]:
        """Hold a slot while the body runs; yield False where there is none."""
        has_slot = self.take(run_id)
        try:
            yield has_slot
        finally:
            if has_slot:
                self.give_back()


_slot_pool = SlotPool(1_000_000)


@after_fork
def _renew() -> None:
    """Give a forked child its own pool: the parent's may be partly taken, and locked."""
    global _slot_pool
    _slot_pool = SlotPool(1_000_000)


def slot_pool() -> SlotPool:
    """Return this process's pool; without ``open_slot_pool`` it has no limit."""
    return _slot_pool


def open_slot_pool(number: int) -> SlotPool:
    """Set this process's number of slots."""
    global _slot_pool
    _slot_pool = SlotPool(number)
    return _slot_pool
