"""What real databases raise, named: every error here is raised by SQLite or Postgres itself."""

from __future__ import annotations

import pickle
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError

from config.database import engine as databases
from config.database.engine import Database, open_database
from config.database.errors import (
    DatabaseBusy,
    DatabaseDamaged,
    DatabaseFull,
    DatabaseReadOnly,
    DatabaseUnreachable,
)
from config.errors import CallboardError, Retryable

PAGE_BYTES = 4096


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database with one table of a few pages."""
    path = tmp_path / "folder" / "some.db"
    path.parent.mkdir()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE notes (note TEXT)")
        connection.executemany("INSERT INTO notes VALUES (?)", [("x" * 1000,)] * 50)
    connection.close()
    return path


@pytest.fixture
def opened(file: Path) -> Iterator[Database]:
    database = open_database(f"sqlite:///{file}")
    yield database
    database.close()


def note(database: Database, words: str = "new") -> None:
    with database.write() as connection:
        connection.execute(text("INSERT INTO notes VALUES (:words)"), {"words": words})


def count(database: Database) -> int:
    with database.read() as connection:
        return int(connection.execute(text("SELECT count(*) FROM notes")).scalar_one())


# --- SQLite


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "BUSY_TIMEOUT_MS", 150)
    monkeypatch.setattr(databases, "LOCKED_TIMEOUT_MS", 20)


@pytest.fixture
def lock(file: Path) -> Iterator[sqlite3.Connection]:
    """Another process's connection, which may take the lock."""
    other = sqlite3.connect(file, isolation_level=None)
    yield other
    other.close()


def test_a_lock_is_busy_and_reading_continues(impatient: None, file: Path, lock: sqlite3.Connection) -> None:
    database = open_database(f"sqlite:///{file}")
    lock.execute("BEGIN IMMEDIATE")

    with pytest.raises(DatabaseBusy, match="locked by another process"):
        note(database)
    assert count(database) == 50
    lock.execute("ROLLBACK")
    note(database)

    assert count(database) == 51
    database.close()


def test_who_waited_in_vain_for_long_is_followed_by_those_who_wait_less(
    impatient: None, file: Path, lock: sqlite3.Connection
) -> None:
    database = open_database(f"sqlite:///{file}")
    waits: list[int] = []

    @event.listens_for(database.engine, "before_cursor_execute")
    def look(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("PRAGMA busy_timeout"):
            waits.append(int(statement.partition("=")[2]))

    lock.execute("BEGIN IMMEDIATE")
    for _ in range(3):
        with pytest.raises(DatabaseBusy):
            note(database)
    lock.execute("ROLLBACK")
    note(database)  # it got through, so the next has all the patience there is again
    note(database)

    short = [wait for wait in waits if wait != databases.BUSY_TIMEOUT_MS]
    assert len(short) == 3
    assert all(wait <= databases.LOCKED_TIMEOUT_MS for wait in short)
    assert waits[1::2] == [databases.BUSY_TIMEOUT_MS] * 3  # each is put back
    database.close()


def test_threads_behind_each_other_wait_no_longer_than_one(
    monkeypatch: pytest.MonkeyPatch, file: Path, lock: sqlite3.Connection
) -> None:
    monkeypatch.setattr(databases, "BUSY_TIMEOUT_MS", 400)
    database = open_database(f"sqlite:///{file}")
    codes: list[str] = []
    begun: list[str] = []

    @event.listens_for(database.engine, "before_cursor_execute")
    def look(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        begun.append(statement)

    def write() -> None:
        try:
            note(database)
        except CallboardError as error:
            codes.append(error.code)

    lock.execute("BEGIN IMMEDIATE")
    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert codes == ["database_busy"] * 8
    tries, shortened = begun.count("BEGIN IMMEDIATE"), len(begun) - begun.count("BEGIN IMMEDIATE")
    assert shortened == 2 * (tries - 1)  # all but the first had waited for their turn, and waited less for the lock
    database.close()


def test_a_full_disk_is_full_and_continues_once_there_is_space(opened: Database) -> None:
    pages = 1

    @event.listens_for(opened.engine, "checkout")
    def allow(connection: Any, _record: Any, _proxy: Any) -> None:
        connection.execute(f"PRAGMA max_page_count={pages}")  # SQLite raises it to what is used

    with pytest.raises(DatabaseFull, match="make space") as full:
        note(opened, "y" * 100_000)
    assert count(opened) == 50
    pages = 100_000
    note(opened, "y" * 100_000)

    assert (full.value.status, full.value.code, isinstance(full.value, Retryable)) == (507, "database_full", True)
    assert count(opened) == 51


def test_a_database_opened_for_reading_is_read_only(file: Path) -> None:
    database = open_database(f"sqlite:///file:{file}?mode=ro&uri=true")

    with pytest.raises(DatabaseReadOnly, match="nothing was changed"):
        note(database)

    assert count(database) == 50
    database.close()


def test_a_damaged_file_is_damaged(file: Path, opened: Database) -> None:
    data = bytearray(file.read_bytes())
    data[PAGE_BYTES:] = b"\xff" * (len(data) - PAGE_BYTES)
    file.write_bytes(data)

    with pytest.raises(DatabaseDamaged, match="restore a backup") as damaged:
        count(opened)

    assert damaged.value.status == 503
    assert not isinstance(damaged.value, Retryable)


def test_a_file_that_is_no_database_is_damaged(file: Path, opened: Database) -> None:
    file.write_bytes(b"not a database at all, whatever its name is " * 200)

    with pytest.raises(DatabaseDamaged):
        count(opened)


def test_a_folder_that_is_gone_is_said(file: Path, opened: Database) -> None:
    shutil.rmtree(file.parent)

    with pytest.raises(DatabaseUnreachable, match="its folder exists"):
        count(opened)


def test_an_exhausted_pool_is_busy(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    monkeypatch.setattr(databases, "BUSY_TIMEOUT_MS", 50)
    database = open_database(f"sqlite:///{file}", pool_size=1, max_overflow=0)

    with database.read(), pytest.raises(DatabaseBusy, match="CALLBOARD_DATABASE_POOL_SIZE"):
        count(database)

    assert count(database) == 50
    database.close()


def test_our_own_mistake_stays_what_it_is(opened: Database) -> None:
    with opened.write() as connection:
        connection.execute(text("CREATE UNIQUE INDEX once ON notes (note) WHERE note = 'once'"))
    note(opened, "once")

    with pytest.raises(DBAPIError):
        note(opened, "once")


def test_no_password_is_shown(file: Path) -> None:
    database = open_database("postgresql+psycopg://someone:hunter2@127.0.0.1:1/name")

    with pytest.raises(DatabaseUnreachable) as away:
        count(database)

    assert "hunter2" not in str(away.value)
    assert str(pickle.loads(pickle.dumps(away.value))) == str(away.value)


# --- Postgres

CLASSES: dict[type[CallboardError], str] = {
    DatabaseReadOnly: "25006",
    DatabaseBusy: "25P03 40001 40P01 55P03 57014 53200 53300 53400",
    DatabaseFull: "53100",
    DatabaseUnreachable: "57P01 57P03 08006 58030",
    DatabaseDamaged: "XX001 XX002",
}
STATES = {state: kind for kind, states in CLASSES.items() for state in states.split()}


@pytest.mark.postgres
@pytest.mark.parametrize(("state", "kind"), STATES.items())
def test_a_state_of_postgres_has_a_name(postgres_url: str, state: str, kind: type[CallboardError]) -> None:
    database = open_database(postgres_url)

    with pytest.raises(kind) as error_info, database.write() as connection:
        connection.exec_driver_sql(f"DO $$ BEGIN RAISE 'it is so' USING ERRCODE = '{state}'; END $$")
    with database.read() as connection:
        assert connection.execute(text("SELECT 1")).scalar() == 1

    assert type(error_info.value) is kind
    database.close()


@pytest.mark.postgres
def test_our_own_mistake_on_postgres_stays_what_it_is(postgres_url: str) -> None:
    database = open_database(postgres_url)

    with pytest.raises(DBAPIError), database.read() as connection:
        connection.execute(text("SELECT nothing FROM nowhere"))

    database.close()


@pytest.mark.postgres
def test_a_postgres_that_only_reads(postgres_url: str) -> None:
    database = open_database(postgres_url)
    with database.write() as connection:
        connection.execute(text("CREATE TABLE notes (note TEXT)"))
        connection.exec_driver_sql(
            f'ALTER DATABASE "{database.engine.url.database}" SET default_transaction_read_only = on'
        )
    database.close()

    with pytest.raises(DatabaseReadOnly, match="primary and not a standby"):
        note(database)

    assert count(database) == 0
    database.close()


@pytest.mark.postgres
def test_a_lock_on_postgres_is_waited_for_so_long_and_no_longer(
    monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    monkeypatch.setattr(databases, "BUSY_TIMEOUT_MS", 100)
    database = open_database(postgres_url)
    with database.write() as connection:
        connection.execute(text("CREATE TABLE notes (note TEXT)"))

    with database.write() as other:
        other.execute(text("LOCK TABLE notes IN EXCLUSIVE MODE"))
        with pytest.raises(DatabaseBusy):
            note(database)
    note(database)

    assert count(database) == 1
    database.close()
