"""Reads a pipe into memory of limited size."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Collector(asyncio.Protocol):
    """Keeps the beginning of what arrives, or its end; ``ended`` is done at the end of the pipe."""

    def __init__(self, max_bytes: int, *, keeps_end: bool = False, on_full: Callable[[], None] = lambda: None) -> None:
        """``on_full`` is called once, when more than ``max_bytes`` arrive and the beginning is kept."""
        self.data = bytearray()
        self.is_full = False
        """Whether something was left out."""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._max_bytes, self._keeps_end, self._on_full = max_bytes, keeps_end, on_full

    def data_received(self, data: bytes) -> None:
        if self.is_full and not self._keeps_end:
            return
        self.data += data
        is_more = len(self.data) > self._max_bytes
        if is_more and self._keeps_end:
            del self.data[: -self._max_bytes]
        elif is_more:
            del self.data[self._max_bytes :]
            self._on_full()
        self.is_full = self.is_full or is_more

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)
