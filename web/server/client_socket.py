"""A client's socket whose writer never waits."""

from __future__ import annotations

import socket
from collections import deque
from itertools import islice
from typing import Any

AT_ONCE = 16
"""Pieces handed to the kernel in one call."""


class ClientSocket(socket.socket):
    """A socket that keeps what it is given until ``flush``: a client that does not read holds no thread."""

    def __init__(self, taken: socket.socket) -> None:
        super().__init__(fileno=taken.detach())
        super().setblocking(False)
        if self.family in (socket.AF_INET, socket.AF_INET6):
            self.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unsent: deque[memoryview] = deque()
        self.unsent_bytes = 0

    def setblocking(self, flag: bool) -> None:
        """Stay non-blocking: gunicorn asks for a blocking socket where it writes on a thread."""

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Keep ``data`` to be sent, behind what is kept already."""
        piece = memoryview(data if isinstance(data, bytes) else bytes(data))
        if piece.nbytes:
            self._unsent.append(piece)
            self.unsent_bytes += piece.nbytes

    def flush(self) -> bool:
        """Send what the kernel takes now, and tell whether that was everything.

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
