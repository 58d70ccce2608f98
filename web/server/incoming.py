"""Split one client's bytes into complete requests, which gunicorn's parser validates; no sockets, no threads.

The end of a chunked body is found as RFC 9112 has it (section 7.1).
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

from gunicorn.http.body import Body, ChunkedReader, LengthReader
from gunicorn.http.errors import ChunkMissingTerminator, LimitRequestHeaders, NoMoreData, ParseException
from gunicorn.http.message import Request
from gunicorn.http.unreader import IterUnreader

from config.tracing import trace_id_of

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


MAX_HEAD_BYTES = 64 * 1024
"""Request line and headers together; gunicorn limits the line to 4094 bytes, a header to 8190 and headers to 100."""
MAX_BODY_BYTES = 2 * 1024 * 1024
PIECE_BYTES = 8192
BARE_LF = re.compile(rb"(?<!\r)\n")


class BodyTooLarge(Exception):
    """A chunked body exceeds the limit; the application refuses one with a Content-Length."""


class Incoming:
    """The received bytes of one connection: ``feed`` adds bytes, ``take`` returns a complete request."""

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
        """Whether a request's head was read and its body is incomplete."""
        return self._request is not None

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._data += data

    @property
    def trace_id(self) -> str | None:
        """The trace id that the request names whose head was read; None where it names none."""
        return named_trace_id(self._request)

    def discard(self) -> None:
        """Drop the received bytes and the current request."""
        self._data.clear()
        self._request = None

    def take(self) -> Any:
        """Return the next request with its whole body, or None if more bytes have to arrive.

        Raises:
            gunicorn.http.errors.ParseException: the head is not valid, or exceeds a limit.
            TooManyChunks: a chunked body has too many chunks, or its framing is too long.
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
        """Return, once per request, whether its client waits for 100 (Continue) before it sends the body."""
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
        except NoMoreData as error:
            raise LimitRequestHeaders("the request's head is too long") from error
        del self._data[:end]
        reader = self._request.body.reader
        self._scan = ChunkScan(0) if isinstance(reader, ChunkedReader) else None
        self._length = reader.length if isinstance(reader, LengthReader) else 0
        return True

    def _head_end(self) -> int | None:
        """Return the end of the head, or of all bytes if the head can no longer become valid."""
        start, self._searched = max(0, self._searched - 3), len(self._data)
        end = self._data.find(b"\r\n\r\n", start)
        if end >= 0:
            return end + 4
        is_hopeless = len(self._data) > MAX_HEAD_BYTES or BARE_LF.search(self._data, start)
        return len(self._data) if is_hopeless else None

    def _body(self) -> Any:
        """Return the body as a file, or None if it is incomplete."""
        self._request._expected_100_continue &= not self._data  # it did not wait
        if self._scan is not None:
            end = self._scan.end(self._data)
            if self._scan.data_bytes > MAX_BODY_BYTES:
                raise BodyTooLarge
            return None if end is None else Body(ChunkedReader(self._request, IterUnreader(_pieces(self._cut(end)))))
        if self._length > MAX_BODY_BYTES:  # the application refuses it, and nothing after it can be parsed
            self._request.force_close()
            self._data.clear()
            return io.BytesIO()
        if len(self._data) < self._length:
            return None
        return io.BytesIO(self._cut(self._length))

    def _cut(self, end: int) -> bytes:
        taken = bytes(self._data[:end])
        del self._data[:end]
        return taken


def named_trace_id(request: Any) -> str | None:
    """Return the trace id that a request names in its head; None where it names none, or there is no request."""
    headers = getattr(request, "headers", ())
    return next((trace_id_of(value) for name, value in headers if name == "TRACEPARENT"), None)


def decode_body(request: Any) -> None:
    """Replace a chunked body by its decoded data; runs on the request's thread, since it takes time.

    Raises:
        gunicorn.http.errors.ParseException: the chunks are malformed.
    """
    if isinstance(request.body, Body):
        try:
            request.body = io.BytesIO(request.body.read())
        except NoMoreData as error:
            raise ChunkMissingTerminator(b"") from error


def _pieces(data: bytes) -> Iterator[bytes]:
    """Yield the data in small pieces, since gunicorn copies the rest of a piece for each chunk in it."""
    for start in range(0, len(data), PIECE_BYTES):
        yield data[start : start + PIECE_BYTES]
