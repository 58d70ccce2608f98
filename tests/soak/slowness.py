"""What makes an installation slow and breaks nothing: peers that hold back, neighbours that take the processors."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from urllib.parse import urlsplit

PEERS = 40
HELD_BACK = (
    b"",
    b"GET /health HTTP/1.1\r\nHost: ",
    b"POST /v1/runs HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{",
    b"POST /v1/runs HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n400\r\n{",
    b"POST /v1/runs HTTP/1.1\r\nHost: {host}\r\nOrigin: http://elsewhere.test\r\nContent-Length: 900\r\n\r\n",
)
"""What a peer sends before it sends nothing more: nothing, half a header, half a body, half a chunk, a refused head."""
HOGS_PER_CORE = 2
LATE_S = 2.0
"""How long /health may take beside such peers while a whole soak shares the machine; it takes milliseconds alone."""
ANSWER_S = 10.0


@contextmanager
def slow_peers(address: str) -> Iterator[None]:
    """Hold back what so many clients began to send."""
    parts = urlsplit(address)
    host, port = parts.hostname or "", parts.port or 80
    with ExitStack() as stack:
        for number in range(PEERS):
            with suppress(OSError):  # the web process may be starting again
                peer = stack.enter_context(socket.create_connection((host, port), timeout=2))
                peer.sendall(HELD_BACK[number % len(HELD_BACK)].replace(b"{host}", f"{host}:{port}".encode()))
        yield


def health_s(address: str) -> float:
    """Return how long /health takes to answer, whatever it says; ``ANSWER_S`` when it does not answer at all."""
    began_s = time.monotonic()
    try:
        urllib.request.urlopen(f"{address}/health", timeout=ANSWER_S).close()
    except urllib.error.HTTPError as answered:
        answered.close()
    except OSError:
        return ANSWER_S
    return time.monotonic() - began_s


@contextmanager
def busy_machine() -> Iterator[None]:
    """Have neighbours take all processors, more than once over."""
    spin = "while True: pass"
    hogs = [subprocess.Popen([sys.executable, "-S", "-c", spin]) for _ in range(HOGS_PER_CORE * (os.cpu_count() or 1))]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
