"""All that a thread waits for in one request has one limit, without what its client asked to wait for."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from config.database.engine import Database, open_database
from config.database.errors import DatabaseBusy
from config.database.timeouts import deadline_s, left_s, not_counted, patience, time_limit

LONG_AGO_S = -1000.0


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    sqlite_database = open_database(f"sqlite:///{tmp_path / 'x.db'}")
    yield sqlite_database
    sqlite_database.close()


def test_without_time_nothing_is_begun(database: Database) -> None:
    with time_limit(30, time.monotonic() + LONG_AGO_S):
        assert left_s() == 0
        with pytest.raises(DatabaseBusy, match="CALLBOARD_REQUEST_TIMEOUT_S"), database.write():
            pass
        with pytest.raises(DatabaseBusy) as refused, database.read():
            pass

    assert refused.value.public == "the database is busy; try again in a moment."
    assert left_s() == math.inf
    with database.write() as connection:
        assert connection.execute(text("SELECT 1")).scalar_one() == 1


def test_a_transaction_ends_with_its_request() -> None:
    with patience(1000), time_limit(10):
        assert deadline_s() - time.monotonic() <= 10
        with patience(math.inf):
            assert deadline_s() - time.monotonic() <= 10


def test_the_shorter_limit_counts() -> None:
    with time_limit(10):
        with time_limit(1000):
            assert left_s() <= 10
        with time_limit(5):
            assert left_s() <= 5
        assert 5 < left_s() <= 10


def test_what_has_a_limit_of_its_own_does_not_count(database: Database) -> None:
    with time_limit(1000, time.monotonic() - 1):
        before_s = left_s()
        with not_counted():
            assert left_s() == math.inf
            with database.read() as connection:
                assert connection.execute(text("SELECT 1")).scalar_one() == 1
        assert left_s() == pytest.approx(before_s, abs=1)
