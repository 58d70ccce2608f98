"""Ports of this machine that are free."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 without a listener; another process may take it meanwhile."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
