"""Where a chunked body ends (RFC 9112, section 7.1)."""

from __future__ import annotations

import re

from gunicorn.http.errors import LimitRequestHeaders

SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r\n")
MAX_LINE_BYTES = 8190
MAX_TRAILER_BYTES = 64 * 1024


class ChunkScan:
    """Finds the end of a chunked body while its bytes arrive, in time linear in what has arrived.

    It reads sizes only. gunicorn's parser decodes the whole body afterwards and decides what is malformed, so the
    two cannot disagree to a client's advantage: a body that is malformed "ends" with what has arrived.
    """

    def __init__(self, start: int) -> None:
        self._at = start
        """Where the next size line begins, or the trailer section."""
        self._searched = start
        self._is_trailer = False

    def end(self, data: bytearray) -> int | None:
        """Return where the body ends, or None while more has to arrive.

        Raises:
            LimitRequestHeaders: the trailer section is longer than 64 KiB.
        """
        while not self._is_trailer and self._at < len(data):
            size = SIZE.match(data, self._at, self._at + MAX_LINE_BYTES)
            if size is None:
                return len(data) if self._is_malformed(data) else None
            length = int(size[1], 16)
            self._at = self._searched = size.end() + (length + 2 if length else 0)
            self._is_trailer = not length
        return self._trailer_end(data) if self._is_trailer else None

    @property
    def needs(self) -> int:
        """The length of the data up to the next size line, as far as the sizes tell."""
        return self._at

    def _is_malformed(self, data: bytearray) -> bool:
        """Tell whether no bytes to come can make a size line of what stands at the place of one."""
        line_end = data.find(b"\n", self._at, self._at + MAX_LINE_BYTES)
        return line_end >= 0 or len(data) - self._at >= MAX_LINE_BYTES

    def _trailer_end(self, data: bytearray) -> int | None:
        if data.startswith(b"\r\n", self._at):
            return self._at + 2
        found = data.find(b"\r\n\r\n", max(self._at, self._searched - 3))
        self._searched = len(data)
        if found < 0 and len(data) - self._at > MAX_TRAILER_BYTES:
            raise LimitRequestHeaders("the trailer section is too long")
        return found + 4 if found >= 0 else None
