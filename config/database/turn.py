"""A fair lock for writers: first come, first served, urgent ones first."""

from __future__ import annotations

import threading
from collections import deque


class FairLock:
    """A fair lock with priority for urgent threads.

    The lock is handed to the next waiter: a thread that releases it and takes it again at once queues behind those that
    wait. ``threading.Lock`` guarantees neither.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_taken = False
        self._waiting: deque[threading.Lock] = deque()

    def take(self, timeout_s: float, *, is_urgent: bool = False) -> bool:
        """Take the lock and return True, or return False after the timeout."""
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return True
            ticket = threading.Lock()
            ticket.acquire()
            (self._waiting.appendleft if is_urgent else self._waiting.append)(ticket)
        try:
            if ticket.acquire(timeout=timeout_s):
                return True
        except BaseException:  # Ctrl-C, or a signal handler's error: the lock must not be handed to this thread later
            if not self._left(ticket):
                self.give_back()
            raise
        return not self._left(ticket)

    def _left(self, ticket: threading.Lock) -> bool:
        """Stop waiting, and return False if the lock was handed over at the same moment."""
        with self._lock:
            is_waiting = ticket in self._waiting
            if is_waiting:
                self._waiting.remove(ticket)
            return is_waiting

    def give_back(self) -> None:
        """Release the lock to the next waiter."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._is_taken = False
