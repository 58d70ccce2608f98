"""Servers for tests of the client."""

from __future__ import annotations

import pytest

from tests.ports import free_port
from tests.web.conftest import empty_database as empty_database


@pytest.fixture
def closed_port() -> int:
    """A port on which nothing listens."""
    return free_port()
