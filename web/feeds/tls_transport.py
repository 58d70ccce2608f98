"""A viewer over TLS: a protocol to the loop's socket, and a transport to the viewer.

The loop's own TLS begins with a handshake; a viewer's session has had its handshake on the server's poller.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from typing import Any, cast

from web.server.sockets import TlsChannel


class TlsTransport(asyncio.WriteTransport, asyncio.Protocol):
    """Continues a TLS session for a viewer, on the loop."""

    def __init__(self, viewer: asyncio.Protocol, channel: TlsChannel) -> None:
        super().__init__()
        self._viewer = viewer
        self._channel = channel

    # --- the loop's protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.WriteTransport, transport)
        self._socket.write(self._channel.unsent)
        self._viewer.connection_made(self)

    def data_received(self, data: bytes) -> None:
        try:
            plain = self._channel.receive(data)
        except ssl.SSLError:
            self._socket.abort()
            return
        self._socket.write(self._channel.outgoing())
        if plain:
            self._viewer.data_received(plain)
        if self._channel.is_ended:
            self.close()

    def pause_writing(self) -> None:
        self._viewer.pause_writing()

    def resume_writing(self) -> None:
        self._viewer.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._viewer.connection_lost(exc)

    # --- the viewer's transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._socket.is_closing():
            self._socket.write(self._channel.encrypt(data))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        """Close after the buffered data, with the message that tells the client that the stream is whole."""
        if not self._socket.is_closing():
            self._socket.write(self._channel.close())
            self._socket.close()

    def abort(self) -> None:
        self._socket.abort()

    def is_closing(self) -> bool:
        return self._socket.is_closing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._socket.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._socket.get_write_buffer_size()
