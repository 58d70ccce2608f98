"""Find the end of a chunked body (RFC 9112, section 7.1)."""

from __future__ import annotations

import re

from gunicorn.http.errors import LimitRequestHeaders, ParseException

SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r\n")
MAX_LINE_BYTES = 8190
MAX_TRAILER_BYTES = 64 * 1024
MAX_CHUNKS = 4096
"""Each costs some microseconds here and in gunicorn's parser; a body of 2 MiB has 512 bytes in each then."""
MAX_FRAMING_BYTES = 64 * 1024
"""Size lines and chunk ends together, without the chunks' data."""


class TooManyChunks(ParseException):  # type: ignore[misc]  # gunicorn has no types
    """A body has more chunks, or longer size lines, than allowed."""

    sentence = (
        f"the body has more than {MAX_CHUNKS:,} chunks, or its size lines take more than 64 KiB; "
        "send larger chunks, or a Content-Length."
    )

    def __str__(self) -> str:
        return self.sentence


class ChunkScan:
    """Finds the end of a chunked body while its bytes arrive, in time linear in their number.

    It reads sizes only. gunicorn's parser decodes the whole body afterwards and decides what is malformed, so a client
    cannot exploit a difference between the two: a malformed body "ends" with the bytes that have arrived.
    """

    def __init__(self, start: int) -> None:
        self._at = start
        """Where the next size line begins, or the trailer section."""
        self._searched = start
        self._is_trailer = False
        self._chunks = self._framing_bytes = 0
        self.data_bytes = 0
        """Data bytes of the chunks whose sizes have arrived; the data may not have arrived yet."""

    def end(self, data: bytearray) -> int | None:
        """Return the end of the body, or None if more bytes have to arrive.

        Raises:
            TooManyChunks: there are more than 4,096, or their size lines are too long.
            LimitRequestHeaders: the trailer section is longer than 64 KiB.
        """
        while not self._is_trailer and self._at < len(data):
            size = SIZE.match(data, self._at, self._at + MAX_LINE_BYTES)
            if size is None:
                line_end = data.find(b"\n", self._at, self._at + MAX_LINE_BYTES)
                can_never_match = line_end >= 0 or len(data) - self._at >= MAX_LINE_BYTES
                return len(data) if can_never_match else None
            length = int(size[1], 16)
            self._count(length, size.end() - size.start())
            self._at = self._searched = size.end() + (length + 2 if length else 0)
            self._is_trailer = not length
        return self._trailer_end(data) if self._is_trailer else None

    def _count(self, length: int, line_bytes: int) -> None:
        self._chunks += 1
        self._framing_bytes += line_bytes + 2
        self.data_bytes += length
        if self._chunks > MAX_CHUNKS or self._framing_bytes > MAX_FRAMING_BYTES:
            raise TooManyChunks

    def _trailer_end(self, data: bytearray) -> int | None:
        if data.startswith(b"\r\n", self._at):
            return self._at + 2
        index = data.find(b"\r\n\r\n", max(self._at, self._searched - 3))
        self._searched = len(data)
        if index < 0 and len(data) - self._at > MAX_TRAILER_BYTES:
            raise LimitRequestHeaders("the trailer section is too long")
        return index + 4 if index >= 0 else None
