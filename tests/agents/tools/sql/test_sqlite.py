"""Queries of a SQLite file that others write to: everything in it can be read, nothing else can be done."""

import asyncio
import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from agents.tools.sql.sqlite import MAX_CELL, SqlQuery, ask_sqlite
from config.errors import ToolFailed

pytestmark = pytest.mark.parity

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"


@pytest.fixture
def file(tmp_path):
    folder = tmp_path / "shop"
    folder.mkdir()
    path = folder / "shop.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE orders (number INTEGER PRIMARY KEY, item TEXT, price REAL, picture BLOB)")
        database.execute("INSERT INTO orders VALUES (1, 'pens', 8.5, x'89504e47'), (2, 'paper', 24.9, NULL)")
    database.close()
    return path


@pytest.fixture
def look(ask, file):
    return lambda sql, **limits: ask(f"sqlite:///{file}", sql, **limits)


def test_answers_with_columns_and_rows(look):
    assert look("SELECT number, item, price, picture FROM orders ORDER BY number") == {
        "columns": ["number", "item", "price", "picture"],
        "rows": [[1, "pens", 8.5, "89504e47"], [2, "paper", 24.9, None]],
    }


def test_the_schema_can_be_read(look):
    assert look("SELECT name FROM sqlite_schema")["rows"] == [["orders"]]


def test_json_can_be_taken_apart(look):
    assert look("""SELECT value ->> 'a' FROM json_each('[{"a": 1}, {"a": "x"}]')""")["rows"] == [[1], ["x"]]


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM orders",
        "INSERT INTO orders (item) VALUES ('x') RETURNING *",
        "WITH gone AS (SELECT 1) DELETE FROM orders RETURNING *",
        "WITH x AS (DELETE FROM orders RETURNING *) SELECT * FROM x",
        "SELECT 1; DELETE FROM orders",
        "SELECT 1 /* ; */ ; DELETE FROM orders --",
        "/* SELECT */ DROP TABLE orders",
        "-- SELECT\nUPDATE orders SET price = 0",
        "PRAGMA query_only = OFF",
        "PRAGMA writable_schema = ON",
        "PRAGMA table_info(orders)",
        "SELECT * FROM pragma_database_list",
        "ATTACH DATABASE '/etc/passwd' AS other",
        "ATTACH ':memory:' AS other",
        "DETACH main",
        "CREATE TEMP TABLE x (y)",
        "VACUUM",
        "VACUUM INTO '/tmp/stolen'",
        "BEGIN IMMEDIATE",
        "SAVEPOINT a",
        "REINDEX",
        "ANALYZE",
        "SELECT load_extension('/tmp/x.so')",
        "SELECT readfile('/etc/passwd')",
        "SELECT writefile('/tmp/x', 'y')",
        "SELECT fts3_tokenizer('x', x'00')",
        "SELECT edit('x')",
        "SELECT * FROM dbstat",
        "EXPLAIN DELETE FROM orders",
        "",
        " ; ",
        "-- nothing",
        "SELECT '\0'",
        "SELECT '\ud800'",
    ],
)
def test_nothing_but_reading_is_possible(look, file, sql):
    before = file.read_bytes()

    with pytest.raises(ToolFailed):
        look(sql)

    assert file.read_bytes() == before
    assert os.listdir(file.parent) == [file.name]


@pytest.mark.parametrize(
    "sql",
    [
        f"{ENDLESS} SELECT count(*) FROM n",
        f"{ENDLESS} SELECT group_concat(x) FROM n",
        "SELECT printf('%.*c', 2000000000, 'x')",
        "SELECT hex(zeroblob(1000000000))",
        "SELECT " + ", ".join(f"{number}" for number in range(101)),
        "SELECT " + "(" * 3000 + "1" + ")" * 3000,
        "SELECT " + "x" * 20_000,
    ],
)
def test_what_takes_too_much_is_ended(look, sql):
    began = time.monotonic()

    with pytest.raises(ToolFailed):
        look(sql, sql_timeout_s=0.5)

    assert time.monotonic() - began < 8


def test_more_rows_than_the_limit_are_not_read(look):
    answer = look(f"{ENDLESS} SELECT x FROM n", sql_max_rows=7)

    assert answer["rows"] == [[1], [2], [3], [4], [5], [6], [7]]
    assert "first 7 rows" in answer["note"]


def test_long_values_are_cut_and_counted(look, file):
    with sqlite3.connect(file) as database:
        database.execute("INSERT INTO orders VALUES (3, ?, 1, ?)", ("x" * 10_000_000, b"\x01" * 10_000_000))
    database.close()

    answer = look("SELECT item, picture FROM orders WHERE number = 3")

    assert [len(value) for value in answer["rows"][0]] == [MAX_CELL, MAX_CELL]
    assert "2 values are cut" in answer["note"]


def test_values_that_json_lacks_become_texts(look, file):
    with sqlite3.connect(file) as database:
        database.execute("INSERT INTO orders VALUES (3, CAST(x'ff61' AS TEXT), 9e999, NULL)")
    database.close()

    answer = look("SELECT item, price, -9e999, 9e999 - 9e999, 9223372036854775807 FROM orders WHERE number = 3")

    assert answer["rows"] == [["\ufffda", "Infinity", "-Infinity", None, 9223372036854775807]]


@pytest.mark.parametrize("is_open", [True, False], ids=["open elsewhere", "closed"])
def test_a_database_with_a_write_ahead_log_is_read(look, file, is_open):
    writer = sqlite3.connect(file)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("UPDATE orders SET item = 'ink' WHERE number = 1")
    writer.commit()
    if not is_open:
        writer.close()

    assert look("SELECT item FROM orders WHERE number = 1")["rows"] == [["ink"]]
    writer.close()


def test_a_missing_or_broken_file_is_named_without_its_path(ask, tmp_path):
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"no database at all" * 100)

    for path in (tmp_path / "gone.db", broken):
        with pytest.raises(ToolFailed) as caught:
            ask(f"sqlite:///{path}", "SELECT 1 FROM sqlite_schema")
        assert str(tmp_path) not in str(caught.value)


def queries():
    """Return the processes of queries that this process has begun."""
    processes = []
    for child in psutil.Process().children():
        with suppress(psutil.Error):  # it has ended meanwhile
            processes += [child] if "sql_process" in " ".join(child.cmdline()) else []
    return processes


def test_a_stop_kills_the_process(file):
    async def run():
        sql_query = SqlQuery(database="shop", sql=f"{ENDLESS} SELECT count(*) FROM n", time_s=30, max_rows=1)
        work = asyncio.create_task(ask_sqlite(file, sql_query))
        while not queries():
            await asyncio.sleep(0.01)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        for _ in range(200):
            if not queries():
                return True
            await asyncio.sleep(0.01)
        return False

    assert asyncio.run(run())


def test_many_stops_leave_no_process(file):
    async def run():
        for _ in range(20):
            sql_query = SqlQuery(database="shop", sql=f"{ENDLESS} SELECT count(*) FROM n", time_s=30, max_rows=1)
            work = asyncio.create_task(ask_sqlite(Path(file), sql_query))
            await asyncio.sleep(0.001)
            work.cancel()
            await asyncio.wait([work])

    asyncio.run(run())  # which waits for the threads

    assert queries() == []
