"""A result that is used again for a second, however many requests ask for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

FRESH_S = 1.0
"""Seconds for which a result is used again."""


class Recent(Generic[T]):
    """Remembers the last result of some work; safe for any thread."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._found: tuple[float, T] | None = None

    def get(self, look: Callable[[], T]) -> T:
        """Return a result of the last second, or look now; while one thread looks, the others get the last result."""
        last = self._found
        if not self._turn.acquire(blocking=last is None) and last is not None:
            return last[1]
        try:
            if self._found is None or time.monotonic() >= self._found[0]:
                found = look()
                self._found = time.monotonic() + FRESH_S, found
            return self._found[1]
        finally:
            self._turn.release()
