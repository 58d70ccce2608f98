"""A client's socket whose writer never blocks, without and with TLS.

TLS of one connection is apart from its socket: ciphertext goes in and out as bytes. The poller, a request's thread and
later the event loop use it in turn, so that none of them waits for a handshake and a stream can leave its thread over
TLS as it does over plain HTTP. The rest of the server reads and writes plaintext.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections import deque
from itertools import islice
from typing import Any

AT_ONCE = 16
"""Pieces passed to the kernel in one call."""


class ClientSocket(socket.socket):
    """A socket that buffers data until ``flush``, so that a client that does not read holds no thread.

    It takes over the descriptor of ``taken``.

    Raises:
        OSError: the client is gone; the file is closed.
    """

    def __init__(self, taken: socket.socket) -> None:
        super().__init__(fileno=taken.detach())
        try:
            super().setblocking(False)
            if self.family in (socket.AF_INET, socket.AF_INET6):
                self.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            self.close()
            raise
        self._unsent: deque[memoryview] = deque()
        self.unsent_bytes = 0

    def setblocking(self, flag: bool) -> None:
        """Stay non-blocking: gunicorn asks for a blocking socket where it writes on a thread."""

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Append ``data`` to the buffer."""
        piece = memoryview(data if isinstance(data, bytes) else bytes(data))
        if piece.nbytes:
            self._unsent.append(piece)
            self.unsent_bytes += piece.nbytes

    def flush(self) -> bool:
        """Send what the kernel accepts now, and return whether the buffer is empty.

        Raises:
            OSError: the client is gone.
        """
        while self._unsent:
            try:
                sent = self.sendmsg(islice(self._unsent, AT_ONCE))
            except (BlockingIOError, InterruptedError):
                return False
            self.unsent_bytes -= sent
            while sent:
                piece = self._unsent.popleft()
                if sent < piece.nbytes:
                    self._unsent.appendleft(piece[sent:])
                sent -= min(sent, piece.nbytes)
        return True

    def take_unsent(self) -> bytes:
        """Empty the buffer and return what was in it."""
        data = b"".join(self._unsent)
        self._unsent.clear()
        self.unsent_bytes = 0
        return data


RECORD_BYTES = 16 * 1024
"""Plaintext of the longest TLS record, so a read of less would leave some of it behind."""


class TlsChannel:
    """One server-side TLS session. Not thread-safe: one thread uses it at a time."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._is_closing = False
        self.unsent = b""
        """Ciphertext that the socket had not sent when it lent the session."""
        self.is_ready = False
        """Whether the handshake is complete."""
        self.is_ended = False
        """Whether the client has ended its direction of the session."""

    def receive(self, data: bytes) -> bytes:
        """Return the plaintext that these bytes complete; empty during the handshake and inside a record.

        Raises:
            ssl.SSLError: the bytes are not TLS, the handshake failed, or a record is forged. ``outgoing`` may have an
                alert that tells the client.
        """
        self._incoming.write(data)
        pieces: list[bytes] = []
        try:
            if not self.is_ready:
                self._session.do_handshake()
                self.is_ready = True
            while piece := self._session.read(RECORD_BYTES):
                pieces.append(piece)
            self.is_ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.is_ended = True
        return b"".join(pieces)

    def encrypt(self, data: Any) -> bytes:
        """Return the ciphertext of ``data``, after anything that the session has to send before it."""
        unsent = memoryview(data)
        while unsent:
            unsent = unsent[self._session.write(unsent) :]
        return self.outgoing()

    def outgoing(self) -> bytes:
        """Return what the session itself has to send: handshake messages, alerts, key updates."""
        return self._outgoing.read()

    def close(self) -> bytes:
        """Return the message that ends the session (close_notify); empty if it was returned before."""
        if self.is_ready and not self._is_closing:
            self._is_closing = True
            with contextlib.suppress(ssl.SSLError):  # the client's own is not there yet, and nothing waits for it
                self._session.unwrap()
        return self.outgoing()

    def client_certificate(self) -> dict[str, Any] | None:
        """Return the verified certificate of the client, as ``ssl`` presents it, or None if it has sent none."""
        return self._session.getpeercert() or None  # decoded each time, which takes 20 µs


HANDSHAKE_RECORD = 0x16
"""The first byte of a TLS connection (RFC 8446, section 5.1)."""


class PlainHttp(Exception):
    """A client sent plain HTTP to a port that serves TLS."""


class TlsSocket(ClientSocket):
    """Decrypts what it receives and encrypts what it sends; the handshake is a part of receiving.

    Raises:
        OSError: the client is gone, or its TLS cannot be used (``ssl.SSLError``).
        PlainHttp: on the first bytes of a connection. Data is sent in plain text from then on.
    """

    def __init__(self, taken: socket.socket, context: ssl.SSLContext) -> None:
        super().__init__(taken)
        self._channel: TlsChannel | None = TlsChannel(context)
        self._has_begun = False
        self._certificate: dict[str, Any] | None = None

    def recv(self, count: int, flags: int = 0) -> bytes:
        """Return plaintext; ``BlockingIOError`` while the handshake or a record is incomplete, empty at the end."""
        data = super().recv(count, flags)
        if not data or self._channel is None:
            return data
        if not self._has_begun:
            self._require_tls(data)
        try:
            plain = self._channel.receive(data)
        finally:  # an error has an alert to send
            super().sendall(self._channel.outgoing())
            self.flush()
        if not plain and not self._channel.is_ended:
            raise BlockingIOError
        return plain

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Append ``data`` to the buffer, encrypted."""
        super().sendall(data if self._channel is None else self._channel.encrypt(data), flags)

    def shutdown(self, how: int) -> None:
        """End the session, then the connection, so that the client knows that the response is whole."""
        self._end_session()
        super().shutdown(how)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._end_session()
        super().close()

    def client_certificate(self) -> dict[str, Any] | None:
        """Return the client's verified certificate, as ``ssl`` presents it, or None."""
        if self._certificate is None and self._channel is not None:
            self._certificate = self._channel.client_certificate() or {}
        return self._certificate or None

    def lend_channel(self) -> TlsChannel:
        """Return the session; its new owner alone reads and writes from now on."""
        assert self._channel is not None
        channel, self._channel = self._channel, None
        channel.unsent = self.take_unsent()
        return channel

    def _require_tls(self, data: bytes) -> None:
        self._has_begun = True
        if data[0] == HANDSHAKE_RECORD:
            return
        self._channel = None
        if data[:1].isalpha():
            raise PlainHttp
        raise ConnectionAbortedError("neither TLS nor HTTP")

    def _end_session(self) -> None:
        if self._channel is not None and self.fileno() >= 0:
            super().sendall(self._channel.close())
            self.flush()
