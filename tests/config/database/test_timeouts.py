"""A thread waits for Postgres as long as its patience lasts, and uses a connection that failed it no more."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator

import pytest
from sqlalchemy import text

from config.database.engine import Database, open_database
from config.database.errors import DatabaseUnreachable
from config.database.timeouts import SILENCE_S, deadline_s, one_limit, patience
from tests.backends import PostgresCluster

pytestmark = pytest.mark.parity

SHORT_S = 0.5


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[Database]:
    database = open_database(postgres_url, pool_size=1, max_overflow=0)
    backend(database)  # is connected: that alone may take two seconds
    yield database
    database.close()


def backend(database: Database) -> int:
    with database.read() as connection:
        return int(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())


def test_a_server_that_stands_still_is_given_up_and_asked_again_on_another_connection(
    postgres: Database, postgres_cluster: PostgresCluster
) -> None:
    before = backend(postgres)

    with postgres_cluster.frozen(), patience(SHORT_S), pytest.raises(DatabaseUnreachable, match="does not answer"):
        backend(postgres)

    assert backend(postgres) != before


def test_the_statements_of_a_transaction_have_one_limit(postgres: Database) -> None:
    done: list[int] = []

    def ask_often() -> None:
        with patience(1.0), postgres.write() as connection:
            for number in range(10):
                connection.execute(text("SELECT pg_sleep(0.3)"))
                done.append(number)

    with pytest.raises(DatabaseUnreachable):
        ask_often()

    assert 2 <= len(done) <= 3


def test_what_may_take_long_is_waited_for(postgres: Database) -> None:
    with patience(SHORT_S), postgres.write() as connection:
        with patience(math.inf):
            connection.execute(text("SELECT pg_sleep(1)"))
        assert connection.execute(text("SELECT 1")).scalar_one() == 1, "and the rest has a limit of its own"


def test_patience_is_its_threads_own(postgres: Database) -> None:
    delays_s: list[float] = []
    with patience(1.0), one_limit():
        other = threading.Thread(target=lambda: delays_s.append(deadline_s() - time.monotonic()))
        other.start()
        other.join()

    assert delays_s[0] == pytest.approx(SILENCE_S, abs=1)
