"""One timer for all paced streams of the model server."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable


class Ticker:
    """One timer for all streams: what is due in the same millisecond is written together."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._buckets: dict[int, list[Callable[[], None]]] = {}
        self._order: list[int] = []
        self._armed: int | None = None

    def at(self, when: float, action: Callable[[], None]) -> None:
        """Call ``action`` at loop time ``when``, at most a millisecond late."""
        key = int(when * 1000) + 1
        bucket = self._buckets.get(key)
        if bucket is not None:
            bucket.append(action)
            return
        self._buckets[key] = [action]
        heapq.heappush(self._order, key)
        if self._armed is None or key < self._armed:
            self._arm()

    def _arm(self) -> None:
        self._armed = self._order[0]
        self._loop.call_at(self._armed / 1000, self._tick)

    def _tick(self) -> None:
        now = int(self._loop.time() * 1000 + 0.001)
        while self._order and self._order[0] <= now:
            for action in self._buckets.pop(heapq.heappop(self._order)):
                action()
        if self._order:
            self._arm()
        else:
            self._armed = None
