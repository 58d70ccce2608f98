"""A proxy that loses connections: each answer is cut off behind as many bytes as the test says."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable

PIECE_BYTES = 64 * 1024
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: closing sends a reset at once."""


class CuttingProxy:
    """Serves one connection after the other, as its one client makes them."""

    def __init__(self, port: int, cut: Callable[[bytes], int | None]) -> None:
        """``cut``: returns for a request how many bytes of its answer get through; None is all of them.

        Every second cut is a reset, the others close the connection as if the answer were complete.
        """
        self._upstream = ("127.0.0.1", port)
        self._cut = cut
        self.connections = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> CuttingProxy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(10)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            with client, socket.create_connection(self._upstream) as upstream:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                request = client.recv(PIECE_BYTES)
                upstream.sendall(request)
                cut = self._cut(request)
                _forward(upstream, client, cut)
                if cut is not None and cut % 2:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


def _forward(upstream: socket.socket, client: socket.socket, cut: int | None) -> None:
    """Send the client the answer up to the cut; the server closes a stream behind its end."""
    left = cut
    while left is None or left > 0:
        data = upstream.recv(PIECE_BYTES if left is None else min(PIECE_BYTES, left))
        if not data:
            return
        client.sendall(data)
        left = None if left is None else left - len(data)
