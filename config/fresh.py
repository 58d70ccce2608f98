"""Values that are used again for a number of seconds after they were looked up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

MAX_KEPT = 10_000
"""Values by key; when they are more, all are dropped."""


class FreshFor(Generic[V]):
    """One value; safe for any thread."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._last: tuple[float, V] | None = None

    def get(self, seconds: float, look_up: Callable[[], V]) -> V:
        """Return the value if it is that fresh, or look it up; while one thread does, the others get the last value."""
        last = self._last
        if not self._turn.acquire(blocking=last is None) and last is not None:
            return last[1]
        try:
            if self._last is None or time.monotonic() - self._last[0] >= seconds:
                value = look_up()
                self._last = time.monotonic(), value
            return self._last[1]
        finally:
            self._turn.release()


class FreshByKey(Generic[K, V]):
    """Values by key, whose age begins with the look-up; two threads that ask at once may both look one up."""

    def __init__(self) -> None:
        self._entries: dict[K, tuple[float, V]] = {}

    def get(self, key: K, seconds: float, look_up: Callable[[], V]) -> V:
        """Return the key's value if it is that fresh, or look it up."""
        now_s = time.monotonic()
        entry = self._entries.get(key)
        if entry is not None and now_s - entry[0] < seconds:
            return entry[1]
        value = look_up()
        keep(self._entries, key, (now_s, value))
        return value

    def has(self, key: K, value: V, seconds: float) -> bool:
        """Return whether this very object is the key's value and that fresh."""
        entry = self._entries.get(key)
        return entry is not None and entry[1] is value and time.monotonic() - entry[0] < seconds

    def forget(self, key: K) -> None:
        """Look the key's value up when it is needed next."""
        self._entries.pop(key, None)


def keep(cache: dict[K, V], key: K, value: V) -> None:
    """Add an entry; those kept before are dropped when they are too many."""
    if len(cache) >= MAX_KEPT:
        cache.clear()
    cache[key] = value
