"""A run in the caller's own transaction: there with the caller's commit, gone with its rollback."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg.rows
import psycopg2.extras
import pytest
from sqlalchemy import Connection, Engine, create_engine, make_url, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from agents.errors import OBSERVER_TRAVELS
from agents.governance.guardrails.guardrails import Guardrails
from agents.process import Process
from agents.registry import AgentRegistry
from agents.runner import Runner
from bus.journal import Journal
from bus.journal.acceptance import accept as accepting
from bus.journal.clients import IdempotencyKey
from bus.journal.errors import CONNECTION_UNUSABLE, IDEMPOTENCY_CONFLICT, RunUnknown
from bus.journal.idempotency import used_before
from bus.messages.message import BusMessage
from config.database.errors import DatabaseBusy
from config.database.migrate import migrate
from config.settings import Settings
from observers.base import AgentObserver
from tests.raising import raises

AGENT = "name: A\nmodel: demo/assistant\nsystem_prompt: x\n"
POSTGRES_DRIVERS = ("postgresql+psycopg", "postgresql+psycopg2")


@pytest.fixture
def settings(settings: Settings, each_database_url: str, tmp_path: Path) -> Settings:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "assistant.yaml").write_text(AGENT)
    own = {"database_url": each_database_url, "agents_dir": str(tmp_path / "agents")}
    ours = settings.model_copy(update=own)
    migrate(ours)
    return ours


@pytest.fixture
def published() -> list[str]:
    return []


@pytest.fixture
def runner(settings: Settings, published: list[str]) -> Iterator[Runner]:
    def publish(message: BusMessage) -> None:
        published.append(message.run_id)

    journal = Journal(settings, publish=publish, guard=Guardrails)
    yield Runner(Process(settings=settings, journal=journal, registry=AgentRegistry(settings.agent_folders)))
    journal.close()


@pytest.fixture(params=["sqlite", *(pytest.param(name, marks=pytest.mark.postgres) for name in POSTGRES_DRIVERS)])
def database_kind(request: pytest.FixtureRequest) -> str:
    """Each driver that the application may use, instead of each kind of database."""
    return str(request.param)


@pytest.fixture
def engine(settings: Settings, database_kind: str) -> Iterator[Engine]:
    """The application's own engine."""
    url = make_url(settings.database).set(drivername=database_kind)
    database_engine = create_engine(url)
    with database_engine.begin() as connection:
        connection.execute(text("CREATE TABLE orders (id INTEGER PRIMARY KEY, run_id TEXT)"))
    yield database_engine
    database_engine.dispose()


@contextmanager
def of_sqlalchemy(engine: Engine) -> Iterator[tuple[Any, Callable[[str], Any], Callable[[], None]]]:
    with engine.connect() as connection:
        yield connection, lambda sql: connection.execute(text(sql)), connection.commit


@contextmanager
def of_a_session(engine: Engine) -> Iterator[tuple[Any, Callable[[str], Any], Callable[[], None]]]:
    with Session(engine) as session:
        yield session, lambda sql: session.execute(text(sql)), session.commit


@contextmanager
def of_the_driver(engine: Engine) -> Iterator[tuple[Any, Callable[[str], Any], Callable[[], None]]]:
    with closing(engine.raw_connection()) as pooled:
        driven: Any = pooled.dbapi_connection
        yield driven, lambda sql: driven.cursor().execute(sql), driven.commit


WAYS = pytest.mark.parametrize("opened", [of_sqlalchemy, of_a_session, of_the_driver])


def orders(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return list(connection.execute(text("SELECT run_id FROM orders")).scalars())


@WAYS
def test_the_run_is_in_the_callers_commit(runner: Runner, engine: Engine, opened: Any, published: list[str]) -> None:
    with opened(engine) as (connection, execute, commit):
        execute("INSERT INTO orders VALUES (1, 'none')")
        handle = runner.run("Pack it", "assistant", connection=connection)
        execute(f"UPDATE orders SET run_id = '{handle.run_id}'")
        with pytest.raises(RunUnknown):
            handle.status()
        assert published == []
        commit()

        assert handle.status() == "queued"
        assert handle.settle(30)
        if opened is not of_the_driver:  # whose commit shows to nothing; the relay finds the row when it looks
            assert set(published) == {handle.run_id}  # twice where the row was overdue meanwhile
    assert orders(engine) == [handle.run_id]


@WAYS
def test_a_rollback_leaves_nothing_of_it(runner: Runner, engine: Engine, opened: Any, published: list[str]) -> None:
    with opened(engine) as (connection, execute, _):
        execute("INSERT INTO orders VALUES (1, 'none')")
        handle = runner.call_tool("clock", {}, agent_id="assistant", connection=connection)
        connection.rollback()

    with pytest.raises(RunUnknown):
        handle.status()
    with runner.journal.database.read() as own:
        for table in ("runs", "messages", "events", "outbox", "threads", "definitions"):
            assert own.execute(text(f"SELECT count(*) FROM {table}")).scalar() == 0, table
    assert (orders(engine), published) == ([], [])


@WAYS
def test_a_start_that_is_refused_keeps_what_the_caller_did(runner: Runner, engine: Engine, opened: Any) -> None:
    key = IdempotencyKey(key="k", method="POST", path="/", body_digest="a")
    runner.run("Pack it", "assistant", idempotency=key, detached=True)
    other = IdempotencyKey(key="k", method="POST", path="/", body_digest="b")

    with opened(engine) as (connection, execute, commit):
        execute("INSERT INTO orders VALUES (1, 'kept')")
        with raises(IDEMPOTENCY_CONFLICT):
            runner.run("Pack another", "assistant", idempotency=other, connection=connection)
        commit()

    assert orders(engine) == ["kept"]


def test_a_lost_race_for_a_key_does_not_end_the_callers_transaction(runner: Runner, engine: Engine) -> None:
    key = IdempotencyKey(key="k", method="POST", path="/", body_digest="a")
    with engine.begin() as connection:
        first = runner.run("Pack it", "assistant", idempotency=key, connection=connection)
        again = runner.run("Pack it", "assistant", idempotency=key, connection=connection)

    assert (again.run_id, again.is_new) == (first.run_id, False)


def test_a_broker_that_is_down_loses_nothing(settings: Settings, engine: Engine) -> None:
    def refuse(message: BusMessage) -> None:
        raise ConnectionError("no broker")

    with closing(Journal(settings, publish=refuse, guard=Guardrails)) as journal:
        process = Process(settings=settings, journal=journal, registry=AgentRegistry(settings.agent_folders))
        with engine.begin() as connection:
            handle = Runner(process).run("Pack it", "assistant", connection=connection)
        handle.settle(5)

        assert handle.status() == "queued"
        with journal.database.read() as own:
            assert own.execute(text("SELECT run_id FROM outbox")).scalars().all() == [handle.run_id]


def test_an_observer_object_cannot_travel_to_the_worker(runner: Runner, engine: Engine) -> None:
    with engine.begin() as connection, raises(OBSERVER_TRAVELS):
        runner.run("Pack it", "assistant", connection=connection, observers=[AgentObserver()])


def refusal(runner: Runner, connection: Any) -> str:
    with raises(CONNECTION_UNUSABLE) as refused:
        runner.run("Pack it", "assistant", connection=connection)
    return str(refused.value)


def test_a_connection_in_autocommit_is_refused(runner: Runner, engine: Engine) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        assert "commits each statement by itself (autocommit)" in refusal(runner, connection)


def test_a_connection_of_django_is_refused_outside_of_atomic(runner: Runner, settings: Settings) -> None:
    from django.conf import settings as django_settings
    from django.db.utils import ConnectionHandler

    if not django_settings.configured:
        django_settings.configure()
    url = make_url(settings.database)
    kind = {"sqlite": "sqlite3"}.get(url.get_backend_name(), url.get_backend_name())
    database = {"ENGINE": f"django.db.backends.{kind}", "NAME": url.database, "USER": url.username or ""}
    connection = ConnectionHandler({"default": database | {"HOST": str(url.query.get("host", ""))}})["default"]

    assert "begin a transaction first" in refusal(runner, connection)
    connection.close()


def test_a_closed_connection_is_refused(runner: Runner, engine: Engine) -> None:
    connection = engine.connect()
    connection.close()
    driven: Any = engine.raw_connection()
    driven.detach()
    driven.dbapi_connection.close()

    assert "is closed; open a transaction" in refusal(runner, connection)
    assert "is closed; open a transaction" in refusal(runner, driven.dbapi_connection)


def with_dict_rows(engine: Engine) -> Any:
    """Return a connection of the engine's driver whose rows are dicts, in a transaction."""
    driven: Any = engine.raw_connection()
    driven.detach()
    connection = driven.dbapi_connection
    if engine.driver == "psycopg":
        connection.row_factory = psycopg.rows.dict_row
    elif engine.driver == "psycopg2":
        connection.cursor_factory = psycopg2.extras.RealDictCursor
    else:
        connection.row_factory = lambda cursor, row: dict(
            zip([column[0] for column in cursor.description], row, strict=True)
        )
    return connection


def test_a_connection_whose_rows_are_dicts_carries_the_run(runner: Runner, engine: Engine) -> None:
    with closing(with_dict_rows(engine)) as connection:
        for _ in range(2):
            handle = runner.run("Pack it", "assistant", connection=connection)
        cursor = connection.cursor()
        cursor.execute("SELECT 1 AS one")
        assert cursor.fetchone() == {"one": 1}
        connection.commit()

    assert handle.status() == "queued"


@WAYS
def test_a_failed_transaction_has_to_be_rolled_back_first(
    runner: Runner, engine: Engine, opened: Any, database_kind: str
) -> None:
    with opened(engine) as (connection, execute, _):
        with pytest.raises(Exception, match="nowhere"):
            execute("SELECT * FROM nowhere")
        if database_kind != "sqlite":
            assert "roll back first" in refusal(runner, connection)
            connection.rollback()

        assert runner.run("Pack it", "assistant", connection=connection).is_new
        connection.rollback()


@pytest.mark.parametrize("opened", [of_sqlalchemy, of_a_session, of_the_driver])
def test_a_file_that_another_writer_holds_is_busy(runner: Runner, tmp_path: Path, opened: Any) -> None:
    file = runner.journal.database.engine.url.database
    if not runner.journal.database.is_sqlite:
        return
    waiting = create_engine(f"sqlite:///{file}", connect_args={"timeout": 0.05})
    with opened(waiting) as (connection, _execute, _commit), runner.journal.database.write():
        with pytest.raises(DatabaseBusy) as busy:
            runner.run("Pack it", "assistant", connection=connection)
        assert busy.value.retryable
    waiting.dispose()


def failing_once(monkeypatch: pytest.MonkeyPatch, name: str, error: Exception) -> None:
    """Let the first call of a function of ``accept`` write and then raise."""
    real: Callable[..., Any] = getattr(accepting, name)
    left = [error]

    def fail(*arguments: Any) -> Any:
        result = real(*arguments)
        if left:
            raise left.pop()
        return result

    monkeypatch.setattr(accepting, name, fail)


@WAYS
def test_a_lost_race_leaves_nothing_of_its_attempt(
    runner: Runner, engine: Engine, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(engine) as (connection, execute, commit):
        execute("INSERT INTO orders VALUES (1, 'kept')")
        failing_once(monkeypatch, "_insert", IntegrityError("INSERT", {}, Exception("another was first")))
        handle = runner.run("Pack it", "assistant", connection=connection)
        commit()

    assert (orders(engine), ids_of_runs(runner)) == (["kept"], [handle.run_id])


@WAYS
def test_an_error_behind_the_first_write_keeps_what_the_caller_did(
    runner: Runner, engine: Engine, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(engine) as (connection, execute, commit):
        execute("INSERT INTO orders VALUES (1, 'kept')")
        failing_once(monkeypatch, "_insert", RuntimeError("behind the thread's row"))
        with pytest.raises(RuntimeError, match="behind"):
            runner.run("Pack it", "assistant", connection=connection)
        commit()

    assert (orders(engine), ids_of_runs(runner)) == (["kept"], [])


@WAYS
def test_a_row_that_is_there_already_does_not_end_the_callers_transaction(
    runner: Runner, engine: Engine, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = IdempotencyKey(key="k", method="POST", path="/", body_digest="a")
    first = runner.run("Pack it", "assistant", idempotency=key, detached=True)
    real = used_before
    looks: list[int] = []

    def blind_once(*arguments: Any) -> Any:
        looks.append(1)
        return real(*arguments) if len(looks) > 1 else None

    monkeypatch.setattr(accepting, "used_before", blind_once)
    with opened(engine) as (connection, execute, commit):
        execute("INSERT INTO orders VALUES (1, 'kept')")
        again = runner.run("Pack it", "assistant", idempotency=key, connection=connection)
        commit()

    assert (again.run_id, orders(engine), ids_of_runs(runner)) == (first.run_id, ["kept"], [first.run_id])


def ids_of_runs(runner: Runner) -> list[str]:
    with runner.journal.database.read() as own:
        return list(own.execute(text("SELECT id FROM runs")).scalars())


def test_a_connection_to_another_database_is_refused(runner: Runner, tmp_path: Path) -> None:
    with create_engine(f"sqlite:///{tmp_path / 'other.db'}").begin() as connection:
        assert "another database than CALLBOARD_DATABASE_URL names" in refusal(runner, connection)
    with closing(sqlite3.connect(tmp_path / "other.db")) as driven:
        assert "another database than CALLBOARD_DATABASE_URL names" in refusal(runner, driven)


def test_a_connection_that_is_none_is_refused(runner: Runner) -> None:
    assert refusal(runner, "postgresql://").startswith("`connection` is a str; pass a Connection or Session")


@pytest.mark.parity
@WAYS
def test_a_connection_of_the_parent_process_is_refused(runner: Runner, engine: Engine, opened: Any) -> None:
    with opened(engine) as (connection, _, _commit):
        runner.run("Pack it", "assistant", connection=connection)
        connection.rollback()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                with raises(CONNECTION_UNUSABLE, match="was opened before this process was forked"):
                    runner.run("Pack it", "assistant", connection=connection)
                os.write(writing, b"refused")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(writing)

        assert os.read(reading, 100) == b"refused"
        os.close(reading)


def test_the_caller_goes_on_with_its_connection(runner: Runner, engine: Engine) -> None:
    with engine.begin() as connection:
        for _ in range(3):
            handle = runner.run("Pack it", "assistant", connection=connection)
    assert isinstance(connection, Connection)
    assert handle.status() == "queued"
