"""What waits in plain code."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import httpx


def pause(seconds: float) -> None:
    """Wait."""
    time.sleep(seconds)


@contextmanager
def closed_after(response: httpx.Response, seconds: float | None) -> Iterator[None]:
    """End the response's stream after so many seconds, as a lost connection would.

    A limit of each read does not suffice: the server's signs of life, every 15 s, would begin it anew.
    """
    if seconds is None:
        yield
        return
    timer = threading.Timer(max(0.0, seconds), _shut_down, (response,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _shut_down(response: httpx.Response) -> None:
    """End the connection; the thread that reads it finds its end."""
    stream = response.extensions.get("network_stream")
    connection = stream.get_extra_info("socket") if stream is not None else None
    with suppress(OSError):
        if connection is not None:  # not the method of a TLS socket, which another thread must not call while one reads
            socket.socket.shutdown(connection, socket.SHUT_RDWR)
