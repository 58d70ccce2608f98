"""Fixtures of the clients' tests."""

from tests.web.conftest import empty_database as empty_database
