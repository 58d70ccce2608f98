"""A client's socket whose writer never blocks."""

from __future__ import annotations

import socket
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
