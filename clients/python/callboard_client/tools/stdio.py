"""The client's ends of stdin and stdout, away from what the user's code reads and prints."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from io import TextIOWrapper
from types import FrameType
from typing import BinaryIO, NoReturn

MAX_LINE = 16 * 1024 * 1024
"""The longest message that is read, in bytes."""


class Wire:
    """Reads and writes messages, one a line."""

    def __init__(self, incoming: BinaryIO, outgoing: int) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._lock = threading.Lock()

    @classmethod
    def claim(cls) -> Wire:
        """Take stdin and stdout over: from now on the process reads an empty stdin, and its stdout is its stderr.

        This holds for the descriptors, so that child processes and libraries written in C print there too.
        """
        incoming, outgoing = os.dup(0), os.dup(1)
        empty = os.open(os.devnull, os.O_RDWR)
        os.dup2(empty, 0)
        os.dup2(2 if _is_open(2) else empty, 1)
        os.close(empty)
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(line_buffering=True)
        return cls(os.fdopen(incoming, "rb"), outgoing)

    def serve(self, take: Callable[[bytes], None], too_long: Callable[[], None]) -> None:
        """Hand each message to ``take`` until the client closes its end; ``too_long`` is called for one that is."""
        while line := self._incoming.readline(MAX_LINE):
            if line.endswith(b"\n") or len(line) < MAX_LINE:
                if line.strip():
                    take(line)
                continue
            while line and not line.endswith(b"\n"):
                line = self._incoming.readline(MAX_LINE)
            too_long()

    def send(self, message: bytes) -> None:
        """Write one message, whole. The process ends where the client no longer reads."""
        with self._lock:
            try:
                while message:
                    message = message[os.write(self._outgoing, message) :]
            except OSError:
                os.kill(os.getpid(), signal.SIGTERM)  # the main thread ends the process


def end_on_signals() -> None:
    """Signals that ask the process to end do so at once, whatever calls are under way."""
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _end_by)


def _end_by(number: int, frame: FrameType | None) -> None:
    end(128 + number)


def end(status: int) -> NoReturn:
    """End the process and what its tools started; no thread is waited for, since a call may take for ever.

    An MCP client gives its server a process group, which is ended. In a group of others, only this process ends.
    """
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(0, signal.SIGTERM)
    os._exit(status)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
