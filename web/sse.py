"""Server-sent events: how they are framed, who watches, and how a stream leaves the thread that answered.

A thread a viewer would fall over near 700 viewers. So the view only checks; then the process's loop takes
the socket, and one thread serves them all. Where the server does not lend its socket (any server but
gunicorn over plain HTTP/1), a generator and a queue do the same for one thread a viewer.
"""

from __future__ import annotations

import asyncio
import os
import queue
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, Protocol, cast

from flask import Response

from bus.journal.line import Line
from bus.payloads import TERMINAL

if TYPE_CHECKING:
    from web.hub import Hub

RETRY = b"retry: 2000\n"
"""Sent first: a line of the first event's block, since clients exist that dispatch a block without data."""
BEAT = b":\n"
"""A comment in the next event's block; an empty line behind it would end one."""
HIGH_BYTES, LOW_BYTES = 128 * 1024, 16 * 1024
"""A viewer that lets more than this pile up gets nothing more until it has read."""
SEND_BUFFER_BYTES = 128 * 1024
"""What the kernel may hold for one viewer, so that a stopped one is noticed here."""
MAX_CHATTER_BYTES = 4096
"""A viewer has nothing to say; one that says more than this is no viewer."""
HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}

Frame = tuple[int, bytes]
"""An event's number and its bytes, ready to be written."""


def frame(line: Line) -> bytes:
    """Return an event as it is sent. JSON has no raw line ends; a forged line may, and must not end one here.

    The id comes last: a client that dispatches what it has of a frame that was cut off keeps its cursor before it.
    """
    if b"\r" in line.data or "\r" in line.type:
        return frame(Line(line.seq, line.type.replace("\r", " "), line.data.replace(b"\r", b" ")))
    return b"event: %s\ndata: %s\nid: %d\n\n" % (line.type.encode(), line.data, line.seq)


class Stream(Protocol):
    """What viewers watch. Every method is called on the loop."""

    def attach(self, viewer: Viewer) -> None:
        """Bring the viewer from its cursor to now, and keep it there."""

    def detach(self, viewer: Viewer) -> None:
        """The viewer is gone."""

    def choked(self, viewer: Viewer) -> None:
        """The viewer does not keep up: send it nothing until it is drained."""

    def drained(self, viewer: Viewer) -> None:
        """The viewer has read what it was sent: go on from where it was."""


class Viewer(asyncio.Protocol):
    """One client of one stream: small, since there may be thousands."""

    __slots__ = (
        "_hub", "_open", "_waiter", "chatter", "cursor", "head", "stream", "stuck_since", "task", "transport", "write",
    )  # fmt: skip

    transport: asyncio.WriteTransport
    write: Callable[[bytes], None]
    """Sends bytes behind what it was sent; returns at once."""

    def __init__(self, hub: Hub, open_stream: Callable[[Hub], Stream], cursor: int) -> None:
        self._hub = hub
        self._open: Callable[[Hub], Stream] | None = open_stream
        self._waiter: asyncio.Future[None] | None = None
        self.cursor = cursor
        """The last number it was sent, as long as no stream keeps that for it."""
        self.head = b""
        self.stream: Stream | None = None
        self.task: asyncio.Task[None] | None = None
        """What brings it up to date, if anything does."""
        self.stuck_since = 0.0
        """Since when it has not been reading, on the loop's clock; 0 while it does."""
        self.chatter = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert self._open is not None
        self.transport = cast(asyncio.WriteTransport, transport)
        self.transport.set_write_buffer_limits(HIGH_BYTES, LOW_BYTES)
        self.write = self.transport.write
        self._hub.add(self)
        self.write(self.head + RETRY)
        self.head = b""
        self.stream, self._open = self._open(self._hub), None
        self.stream.attach(self)

    def data_received(self, data: bytes) -> None:
        self.chatter += len(data)
        if self.chatter > MAX_CHATTER_BYTES:
            self.transport.abort()

    def pause_writing(self) -> None:
        self.stuck_since = self._hub.now()
        self._hub.stuck.add(self)
        if self.stream is not None:
            self.stream.choked(self)

    def resume_writing(self) -> None:
        self.stuck_since = 0.0
        self._hub.stuck.discard(self)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        elif self.stream is not None and not self.transport.is_closing():
            self.stream.drained(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._hub.remove(self)
        if self.task is not None:
            self.task.cancel()
            self.task = None
        if self.stream is not None:
            self.stream.detach(self)
            self.stream = None

    @property
    def is_gone(self) -> bool:
        """Whether nothing that is written reaches it any more."""
        return self.transport.is_closing()

    async def room(self) -> None:
        """Return when it has read most of what it was sent."""
        while self.stuck_since and not self.is_gone:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        self._waiter = None

    def finish(self) -> None:
        """Close the connection behind what was written; one that does not read that is dropped in time."""
        if not self.stuck_since:
            self.stuck_since = self._hub.now()
            self._hub.stuck.add(self)
        self.transport.close()

    def drop(self) -> None:
        """Close the connection now; the client resumes by its cursor."""
        self.transport.abort()


class StreamResponse(Response):
    """The answer that goes on: headers now, events as they come."""

    def __init__(self, hub: Hub, open_stream: Callable[[Hub], Stream], cursor: int = 0) -> None:
        super().__init__(content_type="text/event-stream; charset=utf-8", headers=HEADERS)
        self._hub = hub
        self._open_stream = open_stream
        self._cursor = cursor

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        """Answer, by hand-off where the server lends its socket."""
        if environ["REQUEST_METHOD"] == "HEAD":
            return super().__call__(environ, start_response)
        viewer = Viewer(self._hub, self._open_stream, self._cursor)
        lent = lent_socket(environ)
        if lent is None:
            self.response = portable(self._hub, viewer)
            return super().__call__(environ, start_response)
        viewer.head = self._head()
        self._hub.welcome(take_over(lent), viewer)
        raise StopIteration  # gunicorn closes what it holds, as it does behind a WebSocket, and says nothing

    def _head(self) -> bytes:
        self.headers.pop("Content-Length", None)
        self.headers["Connection"] = "close"
        self.headers["Date"] = formatdate(usegmt=True)
        lines = [f"{name}: {value}\r\n" for name, value in self.headers]
        return f"HTTP/1.1 200 OK\r\n{''.join(lines)}\r\n".encode("latin-1")


# --- taking the socket -----------------------------------------------------------------------------


def lent_socket(environ: dict[str, Any]) -> socket.socket | None:
    """Return the client's socket if this server lends it and we may write plain HTTP/1 to it."""
    lent = environ.get("gunicorn.socket")
    is_plain = isinstance(lent, socket.socket) and not isinstance(lent, ssl.SSLSocket)
    return lent if is_plain and environ.get("SERVER_PROTOCOL", "").startswith("HTTP/1.") else None


def take_over(lent: socket.socket) -> socket.socket:
    """Return the connection as our own, leaving the server one whose other end is closed already.

    gunicorn shuts its socket down when it closes it, which would end a mere duplicate too; and it reads
    until the client has closed, which must not take time.
    """
    ours = socket.socket(fileno=os.dup(lent.fileno()))
    dummy, other = socket.socketpair()
    other.close()
    os.dup2(dummy.fileno(), lent.fileno(), inheritable=False)
    dummy.close()
    ours.setblocking(False)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    if ours.family in (socket.AF_INET, socket.AF_INET6):
        ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return ours


# --- any other server ------------------------------------------------------------------------------


def portable(hub: Hub, viewer: Viewer) -> Iterator[bytes]:
    """Yield what the viewer is sent, in the server's own thread."""
    outlet = Outlet(hub, viewer)
    hub.call_soon(lambda: viewer.connection_made(outlet))
    try:
        while (data := outlet.take()) is not None:
            yield data
    finally:
        hub.call_soon(outlet.hang_up)


class Outlet(asyncio.WriteTransport):
    """A transport whose other end is a thread that yields."""

    def __init__(self, hub: Hub, viewer: Viewer) -> None:
        super().__init__()
        self._hub = hub
        self._viewer = viewer
        self._pieces: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._size = 0
        self._is_full = False
        self._is_closing = False
        self._is_lost = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The limits are the module's."""

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if self._is_closing:
            return
        self._pieces.put(bytes(data))
        with self._lock:
            self._size += len(data)
            filled = not self._is_full and self._size > HIGH_BYTES
            self._is_full = self._is_full or filled
        if filled:
            self._viewer.pause_writing()

    def take(self) -> bytes | None:
        """Return the next piece, waiting for it, or None at the end."""
        data = self._pieces.get()
        if data is None:
            return None
        with self._lock:
            self._size -= len(data)
            emptied = self._is_full and self._size < LOW_BYTES
            self._is_full = self._is_full and not emptied
        if emptied:
            self._hub.call_soon(self._viewer.resume_writing)
        return data

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True
        self._pieces.put(None)

    def abort(self) -> None:
        self.close()
        self._hub.call_soon(self.hang_up)  # its thread may be stuck in a write for long

    def hang_up(self) -> None:
        """The thread yields no more."""
        self._is_closing = True
        if not self._is_lost:
            self._is_lost = True
            self._viewer.connection_lost(None)


def is_over(status: str, cursor: int, last: int) -> bool:
    """Tell whether a run has nothing to say to somebody who saw ``cursor``."""
    return status in TERMINAL and cursor >= last
