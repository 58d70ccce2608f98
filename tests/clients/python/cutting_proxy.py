"""A proxy that loses connections: each answer is cut off behind as many bytes as the test says."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Generator
from contextlib import closing, suppress

PIECE_BYTES = 64 * 1024
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: closing sends a reset at once."""

Source = Callable[[bytes], Generator[bytes]]
"""Returns the answer to a request, in pieces."""


class CuttingProxy:
    """Serves one connection after the other, as its one client makes them."""

    def __init__(self, source: Source, cut: Callable[[bytes], int | None]) -> None:
        """``cut``: returns for a request how many bytes of its answer get through; None is all of them.

        Every second cut is a reset, the others close the connection as if the answer were complete.
        """
        self._source = source
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
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with client, suppress(ConnectionError):
                self._answer(client)

    def _answer(self, client: socket.socket) -> None:
        request = client.recv(PIECE_BYTES)
        left = cut = self._cut(request)
        with closing(self._source(request)) as pieces:
            for piece in pieces:
                client.sendall(piece[:left])
                if left is not None:
                    left -= min(left, len(piece))
                    if not left:
                        break
        if cut is not None and cut % 2:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


def server_at(port: int) -> Source:
    """Return the answers of a server; it closes a stream behind its end."""

    def answers(request: bytes) -> Generator[bytes]:
        with socket.create_connection(("127.0.0.1", port)) as upstream:
            upstream.sendall(request)
            while data := upstream.recv(PIECE_BYTES):
                yield data

    return answers
