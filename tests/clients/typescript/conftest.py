"""Fixtures of the clients' tests."""

from tests.clients.python.conftest import closed_port as closed_port
from tests.web.conftest import empty_database as empty_database
