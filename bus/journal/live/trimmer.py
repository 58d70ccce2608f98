"""Trims a run's stream in Redis when its owner detaches: the newest entries stay, for viewers a little behind."""

from __future__ import annotations

from collections import deque

from bus.redis_wire import Command

KEPT_BYTES = 48 * 1024
"""At most so much of the bodies and what Redis needs for them; with the rest of the keys it is under 64 KiB."""
ENTRY_BYTES = 48
"""What Redis needs for an entry besides its body, about; a stream keeps entries in blocks, with slack."""


class Trimmer:
    """Keeps the sizes of the newest entries that one owner appended, so that those before them can be removed.

    SQL holds every number up to the end, or a ``withdrawn`` event names it: older events are read there.
    """

    def __init__(self, fence: int) -> None:
        self._entries: deque[tuple[int, int]] = deque()
        self._bytes = 0
        self._last = 0
        self._is_cut = fence > 1  # an earlier owner may have left as much as it liked
        self._is_over = False

    def add(self, seq: int, size: int) -> None:
        """Note an appended entry whose last number is ``seq``."""
        if self._is_over:
            return
        self._entries.append((seq, size + ENTRY_BYTES))
        self._bytes += size + ENTRY_BYTES
        self._last = seq
        while self._bytes > KEPT_BYTES:
            self._bytes -= self._entries.popleft()[1]
            self._is_cut = True

    @property
    def kept_bytes(self) -> int | None:
        """Bytes of what ``trim`` kept; None where it kept everything."""
        return self._bytes if self._is_over and self._is_cut and self._last else None

    def trim(self, stream: str, meta: str, sealed_to: int) -> list[Command]:
        """Return the commands that remove what exceeds the limit and is in SQL; later calls of ``add`` do nothing.

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
