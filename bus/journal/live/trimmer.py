"""What stays of a run's stream in Redis when its owner goes: the newest entries, for viewers a little behind."""

from __future__ import annotations

from collections import deque

from bus.redis_wire import Command

KEPT_BYTES = 48 * 1024
"""At most so much of the bodies and what Redis needs for them; with the rest of the keys it is under 64 KiB."""
ENTRY_BYTES = 48
"""What Redis needs for an entry besides its body, about; a stream keeps entries in blocks, with slack."""


class Tail:
    """Knows the newest entries one owner appended, so that what stands before them can be taken away.

    SQL holds every number up to the end, or a ``withdrawn`` event names it: who asks for older ones reads them there.
    """

    def __init__(self, fence: int) -> None:
        self._entries: deque[tuple[int, int]] = deque()
        self._bytes = 0
        self._last = 0
        self._is_cut = fence > 1  # an earlier owner may have left as much as it liked
        self._is_over = False

    def add(self, seq: int, size: int) -> None:
        """Know of an entry whose last number is ``seq``."""
        if self._is_over:
            return
        self._entries.append((seq, size + ENTRY_BYTES))
        self._bytes += size + ENTRY_BYTES
        self._last = seq
        while self._bytes > KEPT_BYTES:
            self._bytes -= self._entries.popleft()[1]
            self._is_cut = True

    def trim(self, stream: str, meta: str, sealed_to: int) -> list[Command]:
        """Return the commands that take away what is too much, and nothing that SQL does not have; none comes later.

        A later owner's entries have higher numbers, so they stay.
        """
        self._is_over = True
        if not self._is_cut or not self._last:
            return []
        first = self._entries[0][0] if self._entries else self._last + 1
        return [
            ("XTRIM", stream, "MINID", f"{min(first, sealed_to + 1)}-0"),
            ("HSET", meta, "bytes", self._bytes),
        ]
