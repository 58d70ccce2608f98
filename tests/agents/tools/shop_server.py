"""A shop on a real socket that takes orders over HTTP and then does to the connection what a test wants."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType

LENGTH = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: "
Behaviour = Callable[[socket.socket], bool]
"""Answers a request; returns whether the connection is closed then, or left as it is."""


def answer(connection: socket.socket) -> bool:
    """Say that it is done."""
    connection.sendall(LENGTH + b"4\r\n\r\ndone")
    return True


def close(connection: socket.socket) -> bool:
    """Close without a word."""
    return True


def reset(connection: socket.socket) -> bool:
    """Close with a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return True


def say_nothing(connection: socket.socket) -> bool:
    """Keep the connection open."""
    return False


def answer_half(connection: socket.socket) -> bool:
    """Close in the middle of the answer."""
    connection.sendall(LENGTH + b"100\r\n\r\nhalf")
    return True


def answer_half_and_wait(connection: socket.socket) -> bool:
    """Say half of the answer and keep the connection open."""
    connection.sendall(LENGTH + b"100\r\n\r\nhalf")
    return False


def answer_nonsense(connection: socket.socket) -> bool:
    """Say what is no HTTP."""
    connection.sendall(b"nonsense\r\n\r\n")
    return True


def answer_a_broken_chunk(connection: socket.socket) -> bool:
    """Close in the middle of a chunk."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab")
    return True


def status(code: int) -> Behaviour:
    """Return the behaviour that answers with a status and nothing else."""

    def behave(connection: socket.socket) -> bool:
        connection.sendall(b"HTTP/1.1 %d Status\r\nContent-Length: 0\r\n\r\n" % code)
        return True

    return behave


@dataclass(slots=True)
class Shop:
    """Each request that arrives whole is an order, whatever becomes of the connection."""

    behaves: Sequence[Behaviour] = (answer,)
    """How it answers the requests in turn; the last one is repeated."""
    arrived: list[Mapping[str, str]] = field(default_factory=list)
    """The headers of each request, names in lower case."""
    _socket: socket.socket = field(init=False)
    _open: list[socket.socket] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}/orders"

    @property
    def effects(self) -> int:
        """How many orders it has: one for each key."""
        return len({headers["idempotency-key"] for headers in self.arrived})

    def __enter__(self) -> Shop:
        self._socket = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._serve, daemon=True, name="shop").start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
        for connection in self._open:
            connection.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._take(connection)

    def _take(self, connection: socket.socket) -> None:
        head, body = b"", b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(65536)
        head, _, body = head.partition(b"\r\n\r\n")
        lines = (line.partition(":") for line in head.decode().split("\r\n")[1:])
        headers = {name.lower(): value.strip() for name, _, value in lines}
        while len(body) < int(headers.get("content-length", "0")):
            body += connection.recv(65536)
        behave = self.behaves[min(len(self.arrived), len(self.behaves) - 1)]
        self.arrived.append(headers)
        if behave(connection):
            connection.close()
        else:
            self._open.append(connection)
