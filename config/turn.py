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
        if mine.acquire(timeout=timeout_s):
            return True
        with self._lock:
            if mine in self._waiting:
                self._waiting.remove(mine)
                return False
            return True  # it was handed over in the same moment

    def give_back(self) -> None:
        """Let the next one have it."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._is_taken = False
