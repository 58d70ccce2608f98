"""The body of an answer, decompressed, up to a limit in bytes and in time."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator

_GZIP_OR_ZLIB = 47
"""zlib's ``wbits`` that recognises both headers."""
MAX_PIECES = 20_000
"""Pieces of the network, or chunks, that are read of one body: each takes some 20 µs."""
COMPRESSED = frozenset({"gzip", "x-gzip", "deflate"})


class Body:
    """Collects what arrives; ``note`` says why it is not the whole body, where it is not."""

    def __init__(self, encoding: str, max_bytes: int) -> None:
        self.data = bytearray()
        self.note: str | None = None
        self._max_bytes = max_bytes
        self._received = self._pieces = 0
        self._inflate = zlib.decompressobj(_GZIP_OR_ZLIB) if encoding in COMPRESSED else None
        if encoding not in ("", "identity") and self._inflate is None:
            self.note = f"the body is compressed by {encoding[:20]!r}, which was not asked for, and was not read"

    async def read(self, pieces: AsyncIterator[bytes], until_s: float) -> None:
        """Read until the end, a limit, or the loop's time ``until_s``; other tasks run between two pieces."""
        import httpx2

        if self.note is not None:
            return
        try:
            async with asyncio.timeout_at(until_s):
                async for piece in pieces:
                    if not self._add(piece):
                        return
                    await asyncio.sleep(0)
        except TimeoutError:
            self.note = "the body did not end in time; this is its beginning"
        except httpx2.HTTPError:
            self.note = "the connection broke before the end of the body; this is its beginning"
        else:
            self._finish()

    def _add(self, piece: bytes) -> bool:
        """Take in what arrived; return whether more may come."""
        self._received += len(piece)
        self._pieces += 1
        left = self._max_bytes - len(self.data)
        if self._inflate is None:
            self.data += piece[:left]
            is_more = len(piece) > left
        else:
            try:
                self.data += self._inflate.decompress(piece, left + 1)
            except zlib.error:
                self.note = "the compressed body is malformed; this is its beginning"
                return False
            is_more = len(self.data) > self._max_bytes or self._received > self._max_bytes
            del self.data[self._max_bytes :]
        if is_more:
            self.note = f"the body has more than {self._max_bytes:,} bytes; this is its beginning"
        elif self._pieces > MAX_PIECES:
            self.note = f"the body came in more than {MAX_PIECES:,} pieces; this is its beginning"
        return self.note is None

    def _finish(self) -> None:
        """Say so where the compressed data did not end, or something follows it."""
        inflate = self._inflate
        if inflate is not None and self._received and (not inflate.eof or inflate.unused_data):
            self.note = "the compressed body is not complete; this is its beginning"
