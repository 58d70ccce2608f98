"""Queries of a PostgreSQL server by a role that only reads: nothing acts, and limits hold."""

import asyncio
import time
from contextlib import suppress

import psycopg
import pytest

from agents.tools.sql.postgres import ask_postgres
from agents.tools.sql.sqlite import MAX_CELL, SqlQuery
from config.errors import ToolFailed

pytestmark = pytest.mark.postgres


@pytest.fixture
def server(postgres_cluster):
    """A database with a table, and its address for a role that only reads."""
    url = postgres_cluster.new_database().replace("postgresql+psycopg", "postgresql")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS reader")
        connection.execute("CREATE ROLE reader LOGIN PASSWORD 'reading-only'")
        connection.execute("CREATE TABLE orders (number int PRIMARY KEY, item text, price numeric, at timestamptz)")
        connection.execute(
            "INSERT INTO orders VALUES (1, 'pens', 8.50, '2026-01-02 03:04:05+00'), (2, NULL, 'NaN', NULL)"
        )
        connection.execute("CREATE SEQUENCE numbers")
        connection.execute("GRANT SELECT ON orders TO reader; GRANT ALL ON SEQUENCE numbers TO reader")
        connection.execute("GRANT INSERT, UPDATE, DELETE ON orders TO reader")  # the transaction refuses all the same
        yield connection
        connection.execute("DROP OWNED BY reader; DROP ROLE reader")


@pytest.fixture
def address(server):
    facts = server.info
    return f"postgresql://reader:reading-only@/{facts.dbname}?host={facts.host}&port={facts.port}"


@pytest.fixture
def look(ask, address):
    return lambda sql, **limits: ask(address, sql, **limits)


def test_answers_with_columns_and_rows(look):
    answer = look("SELECT number, item, price, at FROM orders ORDER BY number;")

    assert answer["columns"] == ["number", "item", "price", "at"]
    assert answer["rows"][0][:3] == [1, "pens", "8.50"]
    assert answer["rows"][0][3].startswith("2026-01-02")
    assert answer["rows"][1] == [2, None, "NaN", None]


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("SELECT 'NaN'::float8", "NaN"),
        ("SELECT '-Infinity'::float8", "-Infinity"),
        ("SELECT 1.5::float4, true", 1.5),
        ("SELECT 'infinity'::timestamptz", "infinity"),
        ("SELECT '4713-01-01 BC'::date", "4713-01-01 BC"),
        ("SELECT '\\x00ff'::bytea", "00ff"),
        ("SELECT '{\"a\": [1]}'::jsonb", '{"a": [1]}'),
        ("SELECT ARRAY[1, 2]", "{1,2}"),
        ("SELECT ROW(1, 'a')", "(1,a)"),
        ("SELECT 'a', 'b' AS a", "a"),
        ("VALUES (1), (2)", 1),
        ("WITH x AS (SELECT 5 AS five) SELECT five FROM x", 5),
        ("TABLE orders", 1),
        ("SELECT 1 -- the end", 1),
        ("SELECT 1 /* the ; end */ ;", 1),
        ("SELECT ')' || '--' || ';'", ")--;"),
        ("SELECT 9223372036854775807", 9223372036854775807),
        ("SELECT 10 % 3", 1),
        ("SELECT '%s'", "%s"),
        ("SELECT 1 AS ts_status, 2 AS events_stats", 1),
    ],
)
def test_every_kind_of_value_is_shown(look, sql, value):
    assert look(sql)["rows"][0][0] == value


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM orders",
        "INSERT INTO orders VALUES (3) RETURNING *",
        "WITH gone AS (DELETE FROM orders RETURNING *) SELECT * FROM gone",
        "SELECT 1; DELETE FROM orders",
        "SELECT 1; COMMIT; DELETE FROM orders",
        "COMMIT",
        "SET TRANSACTION READ WRITE",
        "SET default_transaction_read_only = off",
        "SELECT set_config('transaction_read_only', 'off', false)",
        "SELECT * INTO copied FROM orders",
        "CREATE TEMP TABLE x AS SELECT 1",
        "SELECT * FROM orders FOR UPDATE",
        "SELECT nextval('numbers')",
        "SELECT setval('numbers', 5)",
        "SELECT lo_import('/etc/passwd')",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT pg_ls_dir('/')",
        "SELECT query_to_xml('DELETE FROM orders', true, true, '')",
        "COPY orders TO PROGRAM 'cat'",
        "COPY orders FROM '/etc/passwd'",
        "COPY (SELECT 1) TO STDOUT",
        "EXPLAIN ANALYZE DELETE FROM orders",
        "DO $$ BEGIN DELETE FROM orders; END $$",
        "CALL x()",
        "LISTEN x",
        "PREPARE x AS SELECT 1",
        "DECLARE x CURSOR FOR SELECT 1",
        "SELECT 1) AS asked(c0); DELETE FROM orders; --",
        "SELECT 1) AS asked(c0) --",
        "SELECT 1 /* ",
        "SELECT set_config('role', 'callboard', false)",
        "SELECT pg_reload_conf()",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = current_user",
        "SELECT pg_catalog.PG_Cancel_Backend(1)",
        "SELECT pg_logical_emit_message(false, 'a', 'b')",
        'SELECT U&"pg\\005fterminate_backend"(1)',
        "SELECT query_to_xml('SELECT pg_terminate' || '_backend(1)', true, true, '')",
        "SELECT * FROM ts_stat('SELECT pg_terminate' || '_backend(1)')",
        "SELECT pg_advisory_lock(1)",
        "SELECT FROM orders",
        "SELECT 'a\0b'",
        "SELECT '\ud800'",
        ";",
        "-- nothing",
        "SELECT nothing FROM nowhere",
    ],
)
def test_nothing_but_reading_is_possible(look, server, sql):
    with pytest.raises(ToolFailed):
        look(sql)

    assert server.execute("SELECT count(*), sum(number) FROM orders").fetchone() == (2, 3)
    assert server.execute("SELECT last_value, is_called FROM numbers").fetchone() == (1, False)
    assert server.execute("SELECT to_regclass('copied')").fetchone() == (None,)


def test_what_a_transaction_lets_through_is_rolled_back(look, server):
    with suppress(ToolFailed):  # the releases of PostgreSQL differ in whether a read-only transaction refuses it
        look("SELECT lo_create(0)")

    assert server.execute("SELECT count(*) FROM pg_largeobject_metadata").fetchone() == (0,)


def test_a_notification_of_a_query_is_not_delivered(look, server):
    server.execute("LISTEN news")

    look("SELECT pg_notify('news', 'hello')")

    assert list(server.notifies(timeout=0.2)) == []


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT pg_sleep(60)",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n",
        "SELECT set_config('statement_timeout', '0', false), pg_sleep(60)",
        "SELECT count(*) FROM generate_series(1, 1000000000)",
    ],
)
def test_what_takes_too_long_is_ended(look, sql):
    began = time.monotonic()

    with pytest.raises(ToolFailed, match="took longer"):
        look(sql, sql_timeout_s=0.5)

    assert time.monotonic() - began < 6


def test_all_rows_together_have_one_time_limit(look):
    began = time.monotonic()

    with pytest.raises(ToolFailed, match="took longer"):
        look("SELECT pg_sleep(0.008)::text FROM generate_series(1, 1000)", sql_timeout_s=0.5, sql_max_rows=1000)

    assert time.monotonic() - began < 5  # 50 rows take less than the limit, all of them 8 s


def test_no_query_ends_another_session_of_its_role(look, address):
    with psycopg.connect(address) as other:
        with pytest.raises(ToolFailed, match="pg_terminate_backend"):
            look(f"SELECT pg_terminate_backend({other.info.backend_pid})")
        assert other.execute("SELECT 1").fetchone() == (1,)


def test_a_lock_is_not_waited_for_beyond_the_limit(look, server):
    with server.transaction():
        server.execute("LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(ToolFailed, match="took longer"):
            look("SELECT * FROM orders", sql_timeout_s=0.3)


def test_more_rows_than_the_limit_are_not_read(look):
    answer = look("SELECT * FROM generate_series(1, 1000000)", sql_max_rows=120)

    assert answer["rows"] == [[number] for number in range(1, 121)]
    assert "first 120 rows" in answer["note"]


@pytest.mark.parametrize("rows", [0, 1, 49, 50, 51, 200])
def test_exactly_as_many_rows_as_the_limit_are_no_cut(look, rows):
    answer = look(f"SELECT * FROM generate_series(1, {rows})", sql_max_rows=max(1, rows))

    assert (len(answer["rows"]), "note" in answer) == (rows, False)


def test_long_values_are_cut_on_the_server(look):
    answer = look("SELECT repeat('x', 100000000), convert_to(repeat('x', 10000000), 'UTF8')")

    assert [len(value) for value in answer["rows"][0]] == [MAX_CELL, MAX_CELL]
    assert "2 values are cut" in answer["note"]


def test_a_long_answer_is_cut(look):
    answer = look("SELECT repeat('x', 4000) FROM generate_series(1, 150)")

    assert len(answer["rows"]) < 60
    assert "narrow the question" in answer["note"]


@pytest.mark.parametrize(
    ("grant", "words"),
    [
        ("ALTER ROLE reader SUPERUSER", "it is a superuser"),
        ("GRANT pg_execute_server_program TO reader", "member of pg_execute_server_program"),
        ("GRANT pg_read_server_files TO reader", "member of pg_read_server_files"),
        ("GRANT callboard TO reader", "member of callboard"),
        ("GRANT EXECUTE ON FUNCTION pg_read_file(text) TO reader", "execute pg_read_file"),
    ],
)
def test_a_role_that_may_act_is_refused(look, server, grant, words):
    server.execute(grant)

    with pytest.raises(ToolFailed, match=words):
        look("SELECT 1")
    server.execute("REVOKE callboard FROM reader")


def test_an_unreachable_server_is_named_without_its_address(ask, address):
    with pytest.raises(ToolFailed) as caught:
        ask(address.replace("reading-only", "other-password").replace("port=", "port=9"), "SELECT 1")

    assert "cannot be reached" in str(caught.value)
    assert "reader" not in str(caught.value)


def test_a_stop_ends_the_query_on_the_server(address, server):
    of_tool = "application_name = 'callboard sql_query' AND wait_event = 'PgSleep'"
    running = f"SELECT count(*) FROM pg_stat_activity WHERE {of_tool}"

    def count():
        return server.execute(running).fetchone()[0]

    async def run():
        sql_query = SqlQuery(database="shop", sql="SELECT pg_sleep(50)", time_s=50, max_rows=1)
        work = asyncio.create_task(ask_postgres(address, sql_query))
        while not await asyncio.to_thread(count):
            await asyncio.sleep(0.01)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(run())
    until = time.monotonic() + 5
    while count() and time.monotonic() < until:
        time.sleep(0.02)
    assert count() == 0


def test_a_frozen_server_is_given_up(postgres_cluster, address):
    async def run():
        sql_query = SqlQuery(database="shop", sql="SELECT 1", time_s=0.3, max_rows=1)
        with postgres_cluster.frozen(), pytest.raises(ToolFailed):
            await asyncio.wait_for(ask_postgres(address, sql_query), 30)

    asyncio.run(run())
