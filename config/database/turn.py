"""Whose turn it is to write: one thread at a time, in the order they came, urgent ones before all others."""

from __future__ import annotations

import threading
from collections import deque


class Turn:
    """A fair lock with a lane for what must not wait behind work.

    The turn is handed from thread to thread: one that gives it back and wants it again at once stands behind those
    that waited. ``threading.Lock`` promises neither.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_taken = False
        self._waiting: deque[threading.Lock] = deque()

    def take(self, timeout_s: float, *, is_urgent: bool = False) -> bool:
        """Wait for the turn and return whether it came in time."""
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return True
            mine = threading.Lock()
            mine.acquire()
            (self._waiting.appendleft if is_urgent else self._waiting.append)(mine)
        try:
            if mine.acquire(timeout=timeout_s):
                return True
        except BaseException:  # Ctrl-C, or another signal's handler: the turn must not come to a thread that went on
            if not self._left(mine):
                self.give_back()
            raise
        return not self._left(mine)

    def _left(self, mine: threading.Lock) -> bool:
        """Wait no longer, and return whether the turn had not been handed over in the same moment."""
        with self._lock:
            is_waiting = mine in self._waiting
            if is_waiting:
                self._waiting.remove(mine)
            return is_waiting

    def give_back(self) -> None:
        """Let the next one have it."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._is_taken = False
