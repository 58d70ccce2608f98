"""What one client sends, cut into whole requests; gunicorn's parser decides what is valid.

Knows neither sockets nor threads.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

from gunicorn.http.body import Body, ChunkedReader, LengthReader
from gunicorn.http.errors import ChunkMissingTerminator, LimitRequestHeaders, NoMoreData
from gunicorn.http.message import Request
from gunicorn.http.unreader import IterUnreader

from web.server.chunks import ChunkScan

MAX_HEAD_BYTES = 64 * 1024
"""Request line and headers together; gunicorn limits the line to 4094 bytes, a header to 8190 and headers to 100."""
MAX_BODY_BYTES = 2 * 1024 * 1024
MAX_FRAMING_BYTES = 64 * 1024
"""What sizes and trailers may add to a chunked body."""
PIECE_BYTES = 8192
BARE_LF = re.compile(rb"(?<!\r)\n")


class BodyTooLarge(Exception):
    """A chunked body is larger than the limit; one with a Content-Length is refused by the application."""


class Incoming:
    """The bytes of one connection: ``feed`` adds them, ``take`` gives a request once all of it has arrived."""

    def __init__(self, cfg: Any, client: Any) -> None:
        self._cfg = cfg
        self._client = client
        self._data = bytearray()
        self._searched = 0
        self._count = 0
        self._request: Any = None
        self._scan: ChunkScan | None = None
        self._length = 0

    def __len__(self) -> int:
        return len(self._data)

    @property
    def is_in_body(self) -> bool:
        """Whether a head has been read whose body is still to come."""
        return self._request is not None

    def feed(self, data: bytes) -> None:
        """Add what the client sent."""
        self._data += data

    def discard(self) -> None:
        """Forget what the client sent; nothing more is read from it."""
        self._data.clear()
        self._request = None

    def take(self) -> Any:
        """Return the next request with its whole body, or None while more has to arrive.

        Raises:
            gunicorn.http.errors.ParseException: the head is not valid, or exceeds a limit.
            BodyTooLarge: a chunked body exceeds the limit.
        """
        if self._request is None and not self._read_head():
            return None
        body = self._body()
        if body is None:
            return None
        request, self._request, self._scan, self._searched = self._request, None, None, 0
        request.body = body
        return request

    def take_expectation(self) -> bool:
        """Tell, once for a request, whether its client waits for a 100 (Continue) before it sends the body."""
        waits = self._request is not None and self._request._expected_100_continue
        if waits:
            self._request._expected_100_continue = False
        return bool(waits)

    def _read_head(self) -> bool:
        end = self._head_end()
        if end is None:
            return False
        self._count += 1
        head = bytes(self._data[:end])
        try:
            self._request = Request(self._cfg, IterUnreader([head]), self._client, self._count)
        except NoMoreData as wrong:
            raise LimitRequestHeaders("the request's head is too long") from wrong
        del self._data[:end]
        reader = self._request.body.reader
        self._scan = ChunkScan(0) if isinstance(reader, ChunkedReader) else None
        self._length = reader.length if isinstance(reader, LengthReader) else 0
        return True

    def _head_end(self) -> int | None:
        """Return where the head ends, or everything there is when no bytes to come can make it valid."""
        start, self._searched = max(0, self._searched - 3), len(self._data)
        end = self._data.find(b"\r\n\r\n", start)
        if end >= 0:
            return end + 4
        is_hopeless = len(self._data) > MAX_HEAD_BYTES or BARE_LF.search(self._data, start)
        return len(self._data) if is_hopeless else None

    def _body(self) -> Any:
        """Return the body as a file, or None while some of it is missing."""
        self._request._expected_100_continue &= not self._data  # it did not wait
        if self._scan is not None:
            return self._chunked_body(self._scan)
        if self._length > MAX_BODY_BYTES:  # the application refuses it, and nothing behind it can be read
            self._request.force_close()
            self._data.clear()
            return io.BytesIO()
        if len(self._data) < self._length:
            return None
        return io.BytesIO(self._cut(self._length))

    def _chunked_body(self, scan: ChunkScan) -> Any:
        end = scan.end(self._data)
        if max(scan.needs, len(self._data) if end is None else end) > MAX_BODY_BYTES + MAX_FRAMING_BYTES:
            raise BodyTooLarge
        return None if end is None else Body(ChunkedReader(self._request, IterUnreader(_pieces(self._cut(end)))))

    def _cut(self, end: int) -> bytes:
        taken = bytes(self._data[:end])
        del self._data[:end]
        return taken


def decode_body(request: Any) -> None:
    """Replace a chunked body by what its chunks say. Takes time, so it is done on the request's own thread.

    Raises:
        gunicorn.http.errors.ParseException: the chunks are malformed.
    """
    if isinstance(request.body, Body):
        try:
            request.body = io.BytesIO(request.body.read())
        except NoMoreData as wrong:
            raise ChunkMissingTerminator(b"") from wrong


def _pieces(data: bytes) -> Iterator[bytes]:
    """Yield the data in small pieces: gunicorn copies what is left of a piece for each chunk in it."""
    for start in range(0, len(data), PIECE_BYTES):
        yield data[start : start + PIECE_BYTES]
