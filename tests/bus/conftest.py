"""One fixture over each database and each hot log; every test has its own rows, keys and names."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis
from sqlalchemy import event

from bus.journal.live import reader
from bus.journal.live.hotlog import HotLog, MemoryHotLog
from bus.journal.live.redis_log import RedisHotLog
from bus.journal.log import writer
from bus.journal.ownership import leases
from bus.journal.states import owned
from bus.keys import Keys
from bus.loop import ProcessLoop
from config.database.engine import Database, open_database
from config.database.migrate import migrate
from config.database.tables import metadata
from config.settings import Settings
from tests.backends import PostgresCluster, RedisServer
from tests.bus.journal_harness import JournalHarness, keyring

LATE_S = 10.0
"""Seconds that a transaction of a thread may end after its test."""


@pytest.fixture(scope="session")
def loop() -> ProcessLoop:
    """The process's loop, as on SQLite: one write at a time."""
    return ProcessLoop()


@pytest.fixture(scope="session")
def wide_loop() -> ProcessLoop:
    """A loop with the writers of Postgres."""
    wide = ProcessLoop()
    wide.widen_writes(8)
    return wide


@pytest.fixture(scope="session")
def empty_database_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file to copy: migrating takes longer than most tests."""
    folder = tmp_path_factory.mktemp("empty")
    migrate(Settings(state_dir=folder, database_url=f"sqlite:///{folder / 'empty.db'}"))
    return folder / "empty.db"


@pytest.fixture
def sqlite_url(tmp_path: Path, empty_database_file: Path) -> str:
    """The URL of this test's own migrated SQLite file."""
    shutil.copy(empty_database_file, tmp_path / "callboard.db")
    return f"sqlite:///{tmp_path / 'callboard.db'}"


@pytest.fixture(scope="session")
def shared_postgres(postgres_cluster: PostgresCluster, migrated_postgres: str) -> Iterator[Database]:
    """A Postgres database whose connections tests share: a new one costs 10 ms, and more until it knows the tables."""
    with closing(open_database(postgres_cluster.new_database(template=migrated_postgres))) as shared:
        yield shared


@pytest.fixture
def postgres(shared_postgres: Database) -> Database:
    """An empty Postgres database; a test that listens to its engine stops before it ends."""
    return empty(shared_postgres)


@pytest.fixture
def database(database_kind: str, request: pytest.FixtureRequest) -> Database:
    """An empty database of each kind."""
    return request.getfixturevalue(database_kind)


def quick(database: Database) -> Database:
    """Do not wait for the disk: no test turns the power off."""

    @event.listens_for(database.engine, "connect")
    def do_not_sync(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA synchronous=OFF")

    return database


def fill(database: Database, file: Path) -> None:
    """Give a SQLite database the content of a file."""
    with closing(sqlite3.connect(file)) as content, closing(database.engine.raw_connection()) as connection:
        assert isinstance(connection.driver_connection, sqlite3.Connection)
        content.backup(connection.driver_connection)


def empty(database: Database) -> Database:
    """Take every row away, also of the audit log, whose triggers refuse it; truncating takes 12 ms, this 3."""
    deletions = (f"DELETE FROM {table.name}" for table in metadata.sorted_tables)
    with database.write() as connection:
        connection.exec_driver_sql("; ".join(("SET LOCAL session_replication_role = replica", *deletions)))
    return database


@pytest.fixture
def postgres_harness(postgres: Database, wide_loop: ProcessLoop) -> Iterator[JournalHarness]:
    """Runs on Postgres alone; mark the test ``postgres``."""
    journal_harness = JournalHarness(postgres, wide_loop, MemoryHotLog())
    yield journal_harness
    journal_harness.commits.close()


@pytest.fixture(scope="session")
def shared_sqlite(tmp_path_factory: pytest.TempPathFactory, empty_database_file: Path) -> Iterator[Database]:
    """A SQLite database whose connections tests share: a new one costs 4 ms until it knows the tables."""
    file = tmp_path_factory.mktemp("shared") / "callboard.db"
    with closing(quick(open_database(f"sqlite:///{file}"))) as shared:
        yield shared


@pytest.fixture
def sqlite(request: pytest.FixtureRequest, empty_database_file: Path) -> Iterator[Database]:
    """An empty SQLite database, for what does not depend on the kind.

    A test that also asks for ``sqlite_url`` or Redis has one of its own, others share one; those that listen to its
    engine stop before they end.
    """
    if {"sqlite_url", "redis_server", "own_redis"}.intersection(request.fixturenames):
        with closing(quick(open_database(request.getfixturevalue("sqlite_url")))) as opened:
            yield opened
        return
    shared = request.getfixturevalue("shared_sqlite")
    fill(shared, empty_database_file)
    yield shared
    until_s = time.monotonic() + LATE_S
    while shared.engine.pool.checkedout() and time.monotonic() < until_s:  # a thread that reads what no one waits for
        time.sleep(0.005)
    assert shared.engine.pool.checkedout() == 0, "the test left a transaction open"


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis of this test alone, to be emptied, stopped and started again."""
    with RedisServer(tmp_path / "own_redis") as server:
        yield server


@pytest.fixture
def redis_client(redis_url: str) -> Iterator[redis.Redis]:
    """A client that looks into the Redis of the tests."""
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def redis_log(redis_url: str, deployment: str, loop: ProcessLoop) -> Iterator[RedisHotLog]:
    """The hot log in a real Redis."""
    log = RedisHotLog(redis_url, Keys(deployment), keyring(), ttl_s=60, max_bytes=1_000_000)
    yield log
    loop.run(log.close())


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.parity)])
def hot_log(request: pytest.FixtureRequest) -> HotLog:
    """The hot log of each kind."""
    return MemoryHotLog() if request.param == "memory" else request.getfixturevalue("redis_log")


@pytest.fixture
def harness(database: Database, request: pytest.FixtureRequest) -> Iterator[JournalHarness]:
    """Runs on each database, written to a hot log in memory."""
    loop = request.getfixturevalue("loop" if database.is_sqlite else "wide_loop")
    journal_harness = JournalHarness(database, loop, MemoryHotLog())
    yield journal_harness
    journal_harness.commits.close()


@pytest.fixture
def small_harness(sqlite: Database, loop: ProcessLoop) -> JournalHarness:
    """Runs on SQLite alone."""
    return JournalHarness(sqlite, loop, MemoryHotLog())


@pytest.fixture
def each_log_harness(sqlite: Database, loop: ProcessLoop, hot_log: HotLog) -> JournalHarness:
    """Runs on SQLite, written to a hot log of each kind."""
    return JournalHarness(sqlite, loop, hot_log)


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Few numbers at a time, and impatient readers: extensions, holes and questions to SQL happen often."""
    for module in (owned, leases, writer):
        monkeypatch.setattr(module, "RESERVE", 6)
    monkeypatch.setattr(reader, "GAP_S", 0.01)
    monkeypatch.setattr(reader, "POLL_S", 0.01)
    monkeypatch.setattr(reader, "IDLE_S", 0.02)
    owned._claim.cache_clear()  # a statement that is built has the number in it
    yield
    owned._claim.cache_clear()
