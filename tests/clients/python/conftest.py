"""Servers for tests of the client."""

from __future__ import annotations

import socket

import pytest

from tests.web.conftest import empty_database as empty_database


@pytest.fixture
def closed_port() -> int:
    """A port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
