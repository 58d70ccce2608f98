"""One fixture over each database and each hot log; every test has its own rows, keys and names."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis
from sqlalchemy import event

from bus.journal.live.hotlog import HotLog, MemoryHotLog
from bus.journal.live.redis_log import RedisHotLog
from bus.journal.log import reader, writer
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


def empty(database: Database) -> Database:
    """Take every row away, also of the audit log, whose triggers refuse it; truncating takes 12 ms, this 3."""
    deletions = (f"DELETE FROM {table.name}" for table in metadata.sorted_tables)
    with database.write() as connection:
        connection.exec_driver_sql("; ".join(("SET LOCAL session_replication_role = replica", *deletions)))
    return database


@pytest.fixture
def postgres_harness(postgres: Database, wide_loop: ProcessLoop) -> Iterator[JournalHarness]:
    """Runs on Postgres alone; mark the test ``postgres``."""
    made = JournalHarness(postgres, wide_loop, MemoryHotLog())
    yield made
    made.commits.close()


@pytest.fixture
def sqlite(sqlite_url: str) -> Iterator[Database]:
    """An empty SQLite database, for what does not depend on the kind."""
    opened = quick(open_database(sqlite_url))
    yield opened
    opened.close()


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
    made = JournalHarness(database, loop, MemoryHotLog())
    yield made
    made.commits.close()


@pytest.fixture
def small_harness(sqlite: Database, loop: ProcessLoop) -> JournalHarness:
    """Runs on SQLite alone."""
    return JournalHarness(sqlite, loop, MemoryHotLog())


@pytest.fixture
def each_log_harness(sqlite: Database, loop: ProcessLoop, hot_log: HotLog) -> JournalHarness:
    """Runs on SQLite, written to a hot log of each kind."""
    return JournalHarness(sqlite, loop, hot_log)


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few numbers at a time, and impatient readers: extensions, holes and questions to SQL happen often."""
    for module in (owned, leases, writer):
        monkeypatch.setattr(module, "RESERVE", 6)
    monkeypatch.setattr(reader, "GAP_S", 0.01)
    monkeypatch.setattr(reader, "POLL_S", 0.01)
    monkeypatch.setattr(reader, "IDLE_S", 0.02)
