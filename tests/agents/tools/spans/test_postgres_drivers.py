"""Statements of psycopg, psycopg2 and asyncpg, with a real Postgres: one span each, without parameters."""

import asyncio
import io
from contextlib import closing

import asyncpg
import psycopg
import psycopg2
import psycopg2.extensions
import psycopg2.extras
import psycopg2.sql
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

from agents.tools.spans.collector import collecting
from agents.tools.spans.hooks import enable_hooks, remove_hooks

pytestmark = [pytest.mark.postgres, pytest.mark.parity]
connect = psycopg2.connect  # as `from psycopg2 import connect` keeps it, before the hooks


@pytest.fixture(scope="module")
def url(postgres_cluster):
    """A database with a table `orders`, a function `shipped`, and an order."""
    address = postgres_cluster.new_database().replace("postgresql+psycopg", "postgresql")
    with psycopg.connect(address) as connection:
        connection.execute("CREATE TABLE orders (id INT, customer TEXT)")
        connection.execute("INSERT INTO orders VALUES (1, 'Ann')")
        connection.execute("CREATE FUNCTION shipped(id INT, who TEXT) RETURNS INT LANGUAGE SQL AS 'SELECT 1'")
    return address


@pytest.fixture
def hooks():
    enable_hooks()
    yield
    remove_hooks()


def spans(collector):
    """Return the spans of statements, after a look that no parameter is in them."""
    records = [record for record in collector.close() if record["kind"] == "sql"]
    assert "private" not in str(records)
    return records


def texts(collector):
    return [(span["statement"], span.get("rows")) for span in spans(collector)]


def test_a_statement_of_psycopg2_makes_a_span(hooks, url):
    with collecting() as collector, closing(connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT * FROM orders WHERE customer <> %s", ("private",))
        assert cursor.fetchall() == [(1, "Ann")]

    (record,) = spans(collector)
    assert (record["name"], record["system"], record["rows"]) == ("SELECT", "postgresql", 1)
    assert record["database"] == url.split("?")[0].rsplit("/", 1)[1]
    assert record["statement"] == "SELECT * FROM orders WHERE customer <> %s"
    assert record["duration_ms"] > 0


def test_each_way_of_a_psycopg2_cursor_makes_one_span(hooks, url):
    with collecting() as collector, closing(connect(url)) as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO orders VALUES (%s, %s)", [(2, "private"), (3, "private")])
        cursor.callproc("shipped", (2, "private"))
        cursor.copy_from(io.StringIO("4\tprivate\n5\tprivate\n"), "orders")
        cursor.copy_to(io.StringIO(), "orders")
        cursor.copy_expert(sql="COPY orders TO STDOUT", file=io.StringIO())
        cursor.execute(query=psycopg2.sql.SQL("SELECT {}").format(psycopg2.sql.Literal("private")), vars=None)
        cursor.execute(cursor.mogrify("UPDATE orders SET customer = %s", ("private",)))
        psycopg2.extras.execute_values(cursor, "INSERT INTO orders VALUES %s", [(6, "private"), (7, "private")])
        psycopg2.extras.execute_batch(cursor, "DELETE FROM orders WHERE customer = %s", [("private",), ("a",)])

    assert texts(collector) == [
        ("INSERT INTO orders VALUES (%s, %s)", 2),
        ("SELECT * FROM shipped(%s, %s)", 1),
        ("COPY orders FROM STDIN", 2),
        ("COPY orders TO STDOUT", 5),
        ("COPY orders TO STDOUT", 5),
        ("SELECT %s", 1),
        ("UPDATE orders SET customer …", 5),
        ("INSERT INTO orders VALUES %s", None),
        ("DELETE FROM orders WHERE customer = %s", None),
    ]


class OwnConnection(psycopg2.extensions.connection):  # type: ignore[misc]  # without types
    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.made = 0

    def cursor(self, *args, **more):
        self.made += 1
        return super().cursor(*args, **more)


class OwnCursor(psycopg2.extensions.cursor):  # type: ignore[misc]
    def execute(self, query, variables=None):
        if self.name is None:
            super().execute("SELECT 'first'")
        return super().execute(query, variables)


@pytest.mark.parametrize(
    ("connection_factory", "cursor_factory", "of_cursor", "kind"),
    [
        (None, None, None, psycopg2.extensions.cursor),
        (None, psycopg2.extras.DictCursor, None, psycopg2.extras.DictCursor),
        (None, None, psycopg2.extras.NamedTupleCursor, psycopg2.extras.NamedTupleCursor),
        (None, psycopg2.extras.DictCursor, psycopg2.extras.RealDictCursor, psycopg2.extras.RealDictCursor),
        (psycopg2.extras.RealDictConnection, None, None, psycopg2.extras.RealDictCursor),
        (OwnConnection, OwnCursor, None, OwnCursor),
        (lambda dsn, **_: OwnConnection(dsn), None, OwnCursor, OwnCursor),
        (OwnConnection, None, None, psycopg2.extensions.cursor),
    ],
)
@pytest.mark.parametrize("name", [None, "slow"])
def test_a_programs_own_connections_and_cursors_stay_what_they_are(
    hooks, url, connection_factory, cursor_factory, of_cursor, kind, name
):
    options = {} if of_cursor is None else {"cursor_factory": of_cursor}
    with (
        collecting() as collector,
        closing(connect(url, connection_factory=connection_factory, cursor_factory=cursor_factory)) as connection,
        connection.cursor(name, **options) as cursor,
    ):
        cursor.execute("SELECT id, customer FROM orders")
        (row,) = cursor.fetchall()

    assert isinstance(cursor, kind)
    assert connection.cursor_factory is cursor_factory
    assert getattr(connection, "made", 1) == 1
    assert (row if isinstance(row, dict) else tuple(row)) in ((1, "Ann"), {"id": 1, "customer": "Ann"})
    assert [text for text, _ in texts(collector)] == ["SELECT id, customer FROM orders"]


def test_a_server_side_cursor_keeps_its_options(hooks, url):
    with closing(connect(url)) as connection:
        cursor = connection.cursor("slow", scrollable=True, withhold=True)

        assert (cursor.name, cursor.scrollable, cursor.withhold) == ("slow", True, True)


def test_a_statement_that_fails_says_so_and_a_wrong_call_is_psycopg2s_to_refuse(hooks, url):
    with collecting() as collector, closing(connect(url)) as connection, connection.cursor() as cursor:
        with pytest.raises(psycopg2.errors.UndefinedTable):
            cursor.execute("SELECT * FROM gone")
        with pytest.raises(TypeError):
            cursor.execute()
        with pytest.raises(TypeError):
            cursor.callproc("shipped", 5)
    with pytest.raises(psycopg2.InterfaceError):
        connection.cursor()

    assert [(span["name"], span["error"]) for span in spans(collector)][:1] == [("SELECT", "UndefinedTable")]


def test_psycopg2_outside_of_a_call_or_without_hooks_notes_nothing(url):
    enable_hooks()
    with closing(connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        with collecting() as before:
            cursor.execute("SELECT 2")
        remove_hooks()
        with closing(connect(url)) as plain:
            assert type(plain) is psycopg2.extensions.connection
            assert type(plain.cursor()) is psycopg2.extensions.cursor

    assert texts(before) == [("SELECT 2", 1)]


def test_a_server_side_cursor_of_psycopg_makes_a_span(hooks, url):
    with collecting() as collector, psycopg.connect(url) as connection, connection.cursor("slow") as cursor:
        assert cursor.execute("SELECT %s::text", ("private",)).fetchone() == ("private",)

    assert [text for text, _ in texts(collector)] == ["SELECT %s::text"]


async def ask_connection(connection):
    """Use each way of a connection of asyncpg, or of a pool's."""
    await connection.execute("INSERT INTO orders VALUES ($1, $2)", 2, "private")
    await connection.executemany("INSERT INTO orders VALUES ($1, $2)", [(3, "private"), (4, "private")])
    assert len(await connection.fetch("SELECT * FROM orders WHERE customer = $1", "private")) == 3
    assert await connection.fetchval("SELECT count(*) FROM orders WHERE id > $1", 1) == 3
    assert await connection.fetchrow("SELECT * FROM orders WHERE id = $1", 99) is None
    await connection.fetch("UPDATE orders SET id = id WHERE id = $1", 2)
    await connection.fetchmany("SELECT $1::text", [("private",), ("private",)])
    await connection.copy_records_to_table("orders", records=[(5, "private")])
    await connection.copy_to_table("orders", source=io.BytesIO(b"6\tprivate\n"), schema_name="public")
    await connection.copy_from_table("orders", output=io.BytesIO())
    await connection.copy_from_query("SELECT $1::text", "private", output=io.BytesIO())
    await connection.execute(query="DELETE FROM orders WHERE id > 1")


ASKED = [
    ("INSERT INTO orders VALUES ($1, $2)", 1),
    ("INSERT INTO orders VALUES ($1, $2)", None),
    ("SELECT * FROM orders WHERE customer = $1", 3),
    ("SELECT count(*) FROM orders WHERE id > $1", 1),
    ("SELECT * FROM orders WHERE id = $1", 0),
    ("UPDATE orders SET id = id WHERE id = $1", None),
    ("SELECT $1::text", 2),
    ("COPY orders FROM STDIN", 1),
    ("COPY public.orders FROM STDIN", 1),
    ("COPY orders TO STDOUT", 6),
    ("COPY (SELECT $1::text) TO STDOUT", 1),
    ("DELETE FROM orders WHERE id > 1", 5),
]


@pytest.mark.parametrize("through", ["connection", "pool", "connection of a pool"])
def test_each_way_of_asyncpg_makes_one_span(hooks, url, through):
    async def run():
        if through == "connection":
            connection = await asyncpg.connect(url)
            await ask_connection(connection)
            await connection.close()
            return
        async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool:
            if through == "pool":
                await ask_connection(pool)
                return
            async with pool.acquire() as connection:
                await ask_connection(connection)

    with collecting() as collector:
        asyncio.run(run())

    records = spans(collector)
    assert [(record["statement"], record.get("rows")) for record in records] == ASKED
    assert {(record["system"], record["database"]) for record in records} == {
        ("postgresql", url.split("?")[0].rsplit("/", 1)[1])
    }


def test_prepared_statements_cursors_and_errors_of_asyncpg_make_spans(hooks, url):
    async def run():
        connection = await asyncpg.connect(url)
        prepared = await connection.prepare("SELECT $1::text")
        await prepared.fetch("private")
        await prepared.fetchval("private")
        await prepared.fetchrow("private")
        await prepared.fetchmany([("private",)])
        await prepared.executemany([("private",)])
        async with connection.transaction():
            assert [row[0] async for row in connection.cursor("SELECT generate_series(1, $1)", 120)][-1] == 120
            opened = await prepared.cursor("private")
            assert (await opened.fetchrow())[0] == "private"
        with pytest.raises(asyncpg.UndefinedTableError):
            await connection.fetch("SELECT * FROM gone")
        await connection.close()

    with collecting() as collector:
        asyncio.run(run())

    records = spans(collector)
    assert [(record["statement"], record.get("rows")) for record in records] == [
        *[("SELECT $1::text", 1)] * 4,
        ("SELECT $1::text", None),
        ("BEGIN;", None),
        ("SELECT generate_series(1, $1)", None),
        ("SELECT $1::text", None),
        ("COMMIT;", None),
        ("SELECT * FROM gone", None),
    ]
    assert records[-1]["error"] == "UndefinedTableError"


def test_asyncpg_outside_of_a_call_notes_nothing_and_gets_its_functions_back(url):
    originals = (asyncpg.Connection.fetch, psycopg2._connect)

    async def run():
        connection = await asyncpg.connect(url)
        assert await connection.fetchval("SELECT 1") == 1
        await connection.close()

    enable_hooks()
    assert asyncpg.Connection.fetch is not originals[0]
    asyncio.run(run())
    remove_hooks()
    with collecting() as collector:
        asyncio.run(run())

    assert spans(collector) == []
    assert (asyncpg.Connection.fetch, psycopg2._connect) == originals


MODES = ["values_only", "values_plus_batch"]


@pytest.mark.parametrize("mode", MODES)
def test_psycopg2_through_sqlalchemy_makes_one_span(hooks, url, mode):
    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg2:"), executemany_mode=mode)
    with engine.connect() as connection, collecting() as collector:
        connection.execute(sqlalchemy.text("SELECT :a"), {"a": "private"})
        changed = sqlalchemy.text("UPDATE orders SET id = :b WHERE customer = :a")
        connection.execute(changed, [{"a": "private", "b": 1}, {"a": "private", "b": 2}])
        connection.rollback()
    engine.dispose()

    assert [text for text, _ in texts(collector)] == [
        "SELECT %(a)s",
        "UPDATE orders SET id = %(b)s WHERE customer = %(a)s",
    ]


def test_asyncpg_through_sqlalchemy_makes_one_span(hooks, url):
    async def run():
        engine = create_async_engine(url.replace("postgresql:", "postgresql+asyncpg:"))
        async with engine.connect() as connection:
            with collecting() as collector:
                await connection.execute(sqlalchemy.text("SELECT CAST(:a AS TEXT)"), {"a": "private"})
                changed = sqlalchemy.text("UPDATE orders SET id = :b WHERE customer = :a")
                await connection.execute(changed, [{"a": "private", "b": 1}, {"a": "private", "b": 2}])
        await engine.dispose()
        return collector

    statements = [text for text, _ in texts(asyncio.run(run()))]
    assert [text.split()[0] for text in statements if text != "BEGIN;"] == ["SELECT", "UPDATE"]
