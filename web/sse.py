"""Server-sent events: hands a stream over from the request's thread to the process's loop.

A thread per viewer stops scaling near 700 viewers. Therefore the view only checks the request; the process's loop takes
over the client's socket, with its TLS session if there is one, and one thread serves all viewers. Where the server does
not expose the socket (only gunicorn does), the loop writes to a socket pair that a generator reads, with one thread per
viewer.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable, Iterator
from email.utils import formatdate
from typing import Any, NoReturn

from flask import Response

from bus.identity.validity import can_end
from web.auth.authentication import current_caller
from web.errors import Overloaded, is_exhausted
from web.feeds.viewers import Stream, Viewer, Viewers
from web.problems import of_error
from web.server.sockets import TlsSocket

SEND_BUFFER_BYTES = 128 * 1024
"""Bytes of the kernel's send buffer per viewer; small, so that a client that does not read is noticed."""
PIECE_BYTES = 64 * 1024
HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}


class StreamResponse(Response):
    """A response that sends its headers at once and each event when it is written."""

    def __init__(self, viewers: Viewers, open_stream: Callable[[], Stream], cursor: int = 0) -> None:
        super().__init__(content_type="text/event-stream; charset=utf-8", headers=HEADERS)
        self._viewers = viewers
        self._open_stream = open_stream
        self._cursor = cursor
        caller = current_caller()
        self._caller = caller if can_end(caller) else None
        self._owner = caller.principal

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        """Respond; hand the socket to the loop where the server exposes it."""
        if environ["REQUEST_METHOD"] == "HEAD":
            return super().__call__(environ, start_response)
        try:
            return self._stream(environ, start_response)
        except OSError as error:
            if not is_exhausted(error):
                raise
            return of_error(Overloaded())(environ, start_response)

    def _stream(self, environ: dict[str, Any], start_response: Any) -> Any:
        viewer = Viewer(self._viewers, self._open_stream, self._cursor, self._caller, self._owner)
        lent = lent_socket(environ)
        if lent is None:
            self.response = portable(self._viewers, viewer)
            return super().__call__(environ, start_response)
        self.headers.pop("Content-Length", None)
        self.headers["Connection"] = "close"
        self.headers["Date"] = formatdate(usegmt=True)
        lines = [f"{name}: {value}\r\n" for name, value in self.headers]
        viewer.head = f"HTTP/1.1 200 OK\r\n{''.join(lines)}\r\n".encode("latin-1") + viewer.head
        hand_over(lent, self._viewers, viewer)


# --- taking the socket -----------------------------------------------------------------------------


def lent_socket(environ: dict[str, Any]) -> socket.socket | None:
    """Return the client's socket if this server exposes it, and its TLS, if any, can be handed over."""
    lent = environ.get("gunicorn.socket")
    is_usable = isinstance(lent, socket.socket) and not isinstance(lent, ssl.SSLSocket)
    return lent if is_usable and environ.get("SERVER_PROTOCOL", "").startswith("HTTP/1.") else None


def hand_over(lent: socket.socket, viewers: Viewers, viewer: Viewer) -> NoReturn:
    """Let the loop serve the viewer on the client's socket, and end the request for gunicorn."""
    ours = take_over(lent)  # before the TLS session is lent: an answer that says why not still needs it
    channel = lent.lend_channel() if isinstance(lent, TlsSocket) else None
    viewers.welcome(ours, viewer, channel)
    raise StopIteration  # gunicorn closes its socket silently, as it does behind a WebSocket


def take_over(lent: socket.socket) -> socket.socket:
    """Return a socket for the connection, and give the server one whose other end is closed.

    gunicorn shuts its socket down when it closes it, which would also end a duplicate; and it reads until the client
    has closed, which must not take time.

    Raises:
        OSError: this process has no free file; ``lent`` is as it was.
    """
    dummy, other = socket.socketpair()
    other.close()
    try:
        ours = socket.socket(fileno=os.dup(lent.fileno()))
    except OSError:
        dummy.close()
        raise
    os.dup2(dummy.fileno(), lent.fileno(), inheritable=False)
    dummy.close()
    ours.setblocking(False)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    if ours.family in (socket.AF_INET, socket.AF_INET6):
        ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return ours


# --- any other server ------------------------------------------------------------------------------


def portable(viewers: Viewers, viewer: Viewer) -> Iterator[bytes]:
    """Return the viewer's bytes, read on the server's own thread from the other end of the viewer's socket pair."""
    ours, other = socket.socketpair()
    ours.setblocking(False)
    viewers.welcome(ours, viewer)
    return _received(other)


def _received(other: socket.socket) -> Iterator[bytes]:
    with other:
        while data := other.recv(PIECE_BYTES):
            yield data
