"""The places of a worker process: how many runs it works on at once, whoever brings them, and when it takes no more."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from config.forks import after_fork


class Desk:
    """Messages from the queue and the poller share these places."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._lock = threading.Lock()
        self._turned_away: set[str] = set()
        self._quarantined: str | None = None
        self._suspects: set[str] = set()  # runs that wait for that place
        self.is_closed = False
        """Whether this process ends, so that nothing is taken any more."""
        self.on_turned_away: Callable[[], None] = lambda: None
        """Called when a place is free again for a run that had to be turned away."""
        self.on_refused: Callable[[str], None] = lambda run_id: None
        """Called with each run that came after the desk was closed."""

    @property
    def free(self) -> int:
        """How many more runs can be taken now."""
        with self._lock:
            return 0 if self.is_closed else self._free

    def take(self, run_id: str) -> bool:
        """Take a place for this run and return whether there was one."""
        with self._lock:
            if not self.is_closed and self._free > 0:
                self._free -= 1
                self._turned_away.discard(run_id)
                return True
            if not self.is_closed:
                self._turned_away.add(run_id)
                return False
        self.on_refused(run_id)
        return False

    def give_back(self) -> None:
        """Let another run have the place."""
        with self._lock:
            self._free += 1
            is_wanted = bool(self._turned_away)
        if is_wanted:
            self.on_turned_away()

    def want(self, run_id: str) -> None:
        """Have a run taken here as soon as there is a place, before pollers elsewhere see it."""
        with self._lock:
            if self.is_closed:
                return
            self._turned_away.add(run_id)
        self.on_turned_away()

    def turned_away(self) -> set[str]:
        """Return the runs that found no place, or are wanted here, since this was asked last."""
        with self._lock:
            found, self._turned_away = self._turned_away, set()
            return found

    def close(self) -> None:
        """Take nothing any more."""
        with self._lock:
            self.is_closed = True

    def quarantine(self, run_id: str) -> bool:
        """Take the one place for a run whose next crash would be its last; False where another run has it.

        Two such runs never share a process, so that one that kills its worker takes no innocent one with it.
        """
        with self._lock:
            is_free = self._quarantined is None
            if is_free:
                self._quarantined = run_id
            else:
                self._suspects.add(run_id)
            return is_free

    def end_quarantine(self, run_id: str) -> None:
        """Let another run have that place, at once."""
        with self._lock:
            if self._quarantined != run_id:
                return
            self._quarantined = None
            self._turned_away |= self._suspects
            is_wanted = bool(self._suspects)
            self._suspects = set()
        if is_wanted:
            self.on_turned_away()

    @contextmanager
    def place_for(self, run_id: str) -> Iterator[bool]:
        """Hold a place for as long as the run is worked on; False where there is none."""
        has_place = self.take(run_id)
        try:
            yield has_place
        finally:
            if has_place:
                self.give_back()


_desk = Desk(1_000_000)


@after_fork
def _renew() -> None:
    """A parent that works on runs holds places and locks that are not the child's."""
    global _desk
    _desk = Desk(1_000_000)


def desk() -> Desk:
    """Return this process's desk; a process that never said how many places it has, has as many as it likes."""
    return _desk


def open_desk(places: int) -> Desk:
    """Make this process's desk."""
    global _desk
    _desk = Desk(places)
    return _desk
