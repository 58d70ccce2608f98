"""A database whose file is deleted, moved or replaced under a running process accepts nothing that would be lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from sqlalchemy import text

from config.database.engine import Database, open_database
from config.database.errors import STATE_DIR_GONE
from tests.raising import raises


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "state"
    path.mkdir()
    return path


@pytest.fixture
def database(folder: Path) -> Database:
    opened = open_database(f"sqlite:///{folder / 'callboard.db'}")
    with opened.write() as connection:
        connection.execute(text("CREATE TABLE t (n INTEGER)"))
    return opened


def insert(database: Database) -> None:
    with database.write() as connection:
        connection.execute(text("INSERT INTO t VALUES (1)"))


def count(database: Database) -> int:
    with database.read() as connection:
        return int(connection.execute(text("SELECT count(*) FROM t")).scalar_one())


def test_a_deleted_folder_accepts_nothing_and_can_still_be_read(database: Database, folder: Path) -> None:
    insert(database)
    shutil.rmtree(folder)

    with raises(STATE_DIR_GONE, match="no longer at its path"):
        insert(database)

    assert count(database) == 1


def test_a_folder_that_is_moved_back_is_written_again(database: Database, folder: Path) -> None:
    folder.rename(folder.with_name("moved"))
    with raises(STATE_DIR_GONE):
        insert(database)
    folder.with_name("moved").rename(folder)

    insert(database)

    assert count(database) == 1


def test_another_file_at_the_path_is_not_the_one_that_was_opened(database: Database, folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()
    other = open_database(f"sqlite:///{folder / 'callboard.db'}")
    with other.write() as connection:
        connection.execute(text("CREATE TABLE t (n INTEGER)"))

    with raises(STATE_DIR_GONE):
        insert(database)

    assert count(other) == 0


def test_a_process_that_has_only_read_knows_the_file_that_it_opened(database: Database, folder: Path) -> None:
    reader = open_database(f"sqlite:///{folder / 'callboard.db'}")
    assert count(reader) == 0
    shutil.rmtree(folder)
    folder.mkdir()
    other = open_database(f"sqlite:///{folder / 'callboard.db'}")
    with other.write() as connection:
        connection.execute(text("CREATE TABLE t (n INTEGER)"))

    with raises(STATE_DIR_GONE):
        insert(reader)

    assert count(other) == 0


def test_a_file_in_the_place_of_the_folder_is_no_state_folder(database: Database, folder: Path) -> None:
    shutil.rmtree(folder)
    folder.touch()

    with raises(STATE_DIR_GONE):
        insert(database)
