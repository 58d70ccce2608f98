"""A client's socket with TLS; the rest of the server reads and writes plaintext on it."""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import Any

from web.server.client_socket import ClientSocket
from web.server.tls_channel import TlsChannel

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
