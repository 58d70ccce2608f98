"""TLS of one connection, apart from its socket: ciphertext goes in and out as bytes.

The poller, a request's thread and later the event loop use it in turn, so that none of them waits for a handshake and
a stream can leave its thread over TLS as it does over plain HTTP.
"""

from __future__ import annotations

import contextlib
import ssl
from typing import Any

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
