"""A database that is locked, full, read-only, damaged or gone: every door says so, and nothing is lost."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import NullPool, create_engine, event, func, select

from bus.journal import Journal
from config.database import engine as databases
from config.database.errors import DatabaseUnreachable
from config.database.migrate import migrate
from config.database.tables import events, idempotency_keys, messages, runs, threads
from config.settings import Settings
from tests.full_disk import full_disk
from tests.web.conftest import RunOwner, accept, opened, process_of, serve_queues
from tests.web.test_run_feed import Client
from web.app import create_app

STORED = (runs, threads, messages, events, idempotency_keys)
HELLO = {"agent": "assistant", "input": "Hello"}
WRITING = [
    ("POST", "/v1/runs", HELLO),
    ("POST", "/v1/agent/run", {"input": "Hello"}),
    ("POST", "/process", {"message": "Hello", "thread_id": "t"}),
    ("POST", "/v1/runs/{run}/cancel", {}),
]
READING = [
    ("GET", "/v1/runs", None),
    ("GET", "/v1/runs/{run}", None),
    ("GET", "/v1/runs/{run}/events", None),
    ("GET", "/v1/runs/{run}/events?after=0&wait_s=1", None),
    ("GET", "/v1/threads", None),
]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "BUSY_TIMEOUT_MS", 100)
    monkeypatch.setattr(databases, "LOCKED_TIMEOUT_MS", 20)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "callboard.db"


@pytest.fixture
def lock(settings: Settings, file: Path) -> Iterator[sqlite3.Connection]:
    """Another process's connection, which may take the lock."""
    other = sqlite3.connect(file, isolation_level=None)
    yield other
    other.close()


def ask(client: Any, method: str, path: str, body: object, run_id: str = "run_0", **headers: str) -> Any:
    return client.open(path.format(run=run_id), method=method, json=body, headers=headers)


def rows(journal: Journal) -> list[int]:
    with journal.database.read() as connection:
        return [connection.execute(select(func.count()).select_from(table)).scalar_one() for table in STORED]


def assert_refused(answer: Any, status: int, code: str) -> None:
    assert (answer.status_code, answer.mimetype) == (status, "application/problem+json"), answer.text
    assert (answer.json["code"], answer.json["status"]) == (code, status)
    assert int(answer.headers["Retry-After"]) > 0
    assert "Traceback" not in answer.text
    assert not re.search(r"sqlite|callboard\.db|://|_URL", answer.text)


@pytest.mark.parametrize(("method", "path", "body"), WRITING)
def test_a_lock_is_said_and_nothing_is_half_written(client, runner, journal, lock, method, path, body) -> None:
    run_id = accept(runner)
    before = rows(journal)
    lock.execute("BEGIN IMMEDIATE")

    answer = ask(client, method, path, body, run_id)
    lock.execute("ROLLBACK")

    assert_refused(answer, 503, "database_busy")
    assert rows(journal) == before


def test_what_is_read_is_read_under_a_lock_too(client, runner, journal, lock) -> None:
    run_id = accept(runner)
    RunOwner(journal, run_id).finish("whole")
    lock.execute("BEGIN IMMEDIATE")

    answers = [ask(client, *door, run_id) for door in READING]

    assert [answer.status_code for answer in answers] == [200] * len(READING)
    assert "whole" in answers[2].text


def test_the_same_key_after_the_lock_is_one_run(client, journal, lock) -> None:
    key = {"Idempotency-Key": "once"}
    lock.execute("BEGIN IMMEDIATE")
    refused = [ask(client, "POST", "/v1/runs", HELLO, **key) for _ in range(2)]
    lock.execute("ROLLBACK")
    accepted = [ask(client, "POST", "/v1/runs", HELLO, **key) for _ in range(2)]

    assert [answer.status_code for answer in refused + accepted] == [503, 503, 202, 202]
    assert accepted[0].json["run_id"] == accepted[1].json["run_id"]
    assert rows(journal)[0] == 1


@pytest.mark.parametrize(("method", "path", "body"), [door for door in WRITING if "cancel" not in door[1]])
def test_a_full_disk_is_507_and_is_over_once_there_is_space(client, runner, journal, method, path, body) -> None:
    engine = journal.database.engine
    run_id = accept(runner)
    before = rows(journal)
    # What a request adds may fit into pages there are, so it is given more than that.
    padded = {name: "y" * 90_000 if name in ("input", "message") else value for name, value in body.items()}

    pages = 1

    @event.listens_for(engine, "checkout")
    def allow(connection: Any, _record: Any, _proxy: Any) -> None:
        connection.execute(f"PRAGMA max_page_count={pages}")  # SQLite raises it to what is used

    answer = ask(client, method, path, padded, run_id)
    after = rows(journal)
    pages = 1_000_000

    assert_refused(answer, 507, "database_full")
    assert after == before
    assert client.post("/v1/runs", json={**HELLO, "input": "y" * 90_000}).status_code == 202


@pytest.fixture
def read_only(settings: Settings, runner, file: Path) -> Iterator[Any]:
    """A client of a process that may only read the database, which has one run."""
    run_id = accept(runner)
    chosen = settings.model_copy(update={"database_url": f"sqlite:///file:{file}?mode=ro&uri=true"})
    with opened(chosen) as reading:
        app = create_app(chosen, reading)
        yield app.test_client(), run_id
        process_of(app).close()


@pytest.mark.parametrize(("method", "path", "body"), WRITING)
def test_a_database_that_can_only_be_read(read_only, method, path, body) -> None:
    client, run_id = read_only

    assert_refused(ask(client, method, path, body, run_id), 503, "database_read_only")
    assert ask(client, "GET", "/v1/runs", None).json["runs"][0]["run_id"] == run_id


@pytest.mark.parity
@pytest.mark.parametrize(
    ("break_it", "code"),
    [
        (lambda file: file.write_bytes(b"this is no database " * 500), "database_damaged"),
        (lambda file: file.rename(file.with_suffix(".away")) and file.mkdir(), "database_unreachable"),
    ],
    ids=["damaged", "gone"],
)
def test_a_broken_database_is_said_at_every_door(settings: Settings, file: Path, break_it, code: str) -> None:
    for ending in ("-wal", "-shm"):
        file.with_name(file.name + ending).unlink(missing_ok=True)
    whole = file.read_bytes()
    break_it(file)
    app = create_app(settings)
    client: Any = app.test_client()

    answers = [ask(client, *door) for door in (*WRITING, *READING, ("GET", "/", None), ("GET", "/ready", None))]
    health = client.get("/health")
    shutil.rmtree(file) if file.is_dir() else file.unlink()
    file.write_bytes(whole)
    after = client.get("/v1/runs")

    for answer in answers:
        assert_refused(answer, 503, code)
    assert (health.status_code, health.json["database"]) == (503, code)
    assert "Retry-After" in health.headers
    assert after.status_code == 200
    process_of(app).close()


@pytest.mark.parity
def test_a_stranger_learns_no_address_of_a_database_that_is_away(settings: Settings, caplog: Any) -> None:
    url = "postgresql+psycopg://ledger-user:ledger-password@127.0.0.1:9/ledger"
    app = create_app(settings.model_copy(update={"database_url": url, "auth": "required"}))

    # This has the form of a key, so the database is asked for the secret that would tell whether it is one.
    answer = app.test_client().get("/v1/runs", headers={"Authorization": f"Bearer cbk_{'a' * 16}_{'b' * 36}"})

    assert_refused(answer, 503, "database_unreachable")
    assert "127.0.0.1" not in answer.text
    assert "ledger" not in answer.text
    assert "127.0.0.1" in caplog.text
    assert "ledger-password" not in caplog.text
    process_of(app).close()


def test_a_run_that_was_accepted_is_answered_so_although_nothing_can_be_read(client, journal, monkeypatch) -> None:
    def away(*_: object) -> None:
        raise DatabaseUnreachable("gone")

    monkeypatch.setattr(journal.readers.runs, "row", away)
    monkeypatch.setattr("bus.journal.actors.readers.last_committed", away)

    answer = ask(client, "POST", "/v1/runs", {**HELLO, "detached": False, "wait_s": 1})

    assert (answer.status_code, answer.json["status"]) == (202, "queued")
    assert rows(journal)[0] == 1


def test_a_viewer_stays_while_its_page_cannot_be_read(app, runner, journal, monkeypatch) -> None:
    from web.feeds import run as feeds

    run_id = accept(runner)
    owner = RunOwner(journal, run_id)
    with journal.database.read() as connection:
        thread_id = connection.execute(select(runs.c.thread_id)).scalar_one()
    queries, page = [], journal.readers.page

    def fail_twice(*where: Any) -> Any:
        queries.append(where)
        if len(queries) < 3:
            raise DatabaseUnreachable("gone")
        return page(*where)

    monkeypatch.setattr(feeds, "DATABASE_RETRY_S", 0.01)
    monkeypatch.setattr(journal.readers, "page", fail_twice)
    viewer = Client(process_of(app).hub, (run_id, thread_id))
    owner.say("a", "b")
    owner.finish("ab")
    seen = viewer.read_all()

    assert len(queries) >= 3
    assert [int(line[4:]) for line in seen.splitlines() if line.startswith(b"id: ")] == [1, 2, 3, 4, 5, 6]


@pytest.fixture
def quick_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that was found counts for the next who asks."""
    monkeypatch.setattr("bus.journal.storage.write_probe.FRESH_S", 0.0)


def states(client: Any) -> list[tuple[int, str]]:
    """Return what both calls answer, and how they call it."""
    health, ready = client.get("/health"), client.get("/ready")
    return [(health.status_code, health.json["database"]), (ready.status_code, ready.json.get("code", "ready"))]


WELL = [(200, "ok"), (200, "ready")]


@pytest.mark.usefixtures("quick_probe")
def test_health_and_ready_say_that_the_database_is_locked(client, journal, lock) -> None:
    serve_queues(journal, "runs")
    before = states(client)
    lock.execute("BEGIN IMMEDIATE")
    locked = states(client)
    lock.execute("ROLLBACK")

    assert locked == [(503, "database_busy")] * 2
    assert (before, states(client)) == (WELL, WELL)


@pytest.mark.usefixtures("quick_probe")
def test_health_and_ready_say_that_the_disk_takes_no_more(client, journal, file: Path) -> None:
    serve_queues(journal, "runs")
    before = states(client)
    with full_disk(file.with_name(file.name + "-wal")):
        full = states(client)

    assert [status for status, _ in full] == [503, 503]
    assert {code for _, code in full} <= {"database_full", "database_unreachable"}
    assert (before, states(client)) == (WELL, WELL)


@pytest.mark.usefixtures("quick_probe")
def test_health_and_ready_say_that_the_database_can_only_be_read(read_only) -> None:
    client, _ = read_only

    assert states(client) == [(503, "database_read_only")] * 2


@pytest.mark.parity
def test_the_database_is_written_to_once_a_second_however_many_ask(client, journal) -> None:
    serve_queues(journal, "runs")
    engine, written = journal.database.engine, []
    event.listen(engine, "commit", lambda _: written.append(1))

    for _ in range(50):
        assert states(client) == WELL

    assert len(written) <= 10
    assert rows(journal) == [0] * len(STORED)


@pytest.mark.postgres
@pytest.mark.usefixtures("quick_probe")
def test_on_postgres_a_locked_table_and_a_standby_are_said(settings: Settings, postgres_url: str) -> None:
    migrate(settings.model_copy(update={"database_url": postgres_url}))
    chosen = settings.model_copy(update={"database_url": postgres_url})
    with opened(chosen) as runner, create_engine(postgres_url, poolclass=NullPool).connect() as other:
        app = create_app(chosen, runner)
        client: Any = app.test_client()
        serve_queues(runner.journal, "runs")
        before = states(client)
        other.exec_driver_sql("LOCK TABLE outbox IN EXCLUSIVE MODE")
        locked = states(client)
        other.rollback()
        other.exec_driver_sql(f"ALTER DATABASE {other.engine.url.database} SET default_transaction_read_only = on")
        other.commit()
        runner.journal.database.close()
        standby = states(client)
        process_of(app).close()

    assert (before, locked) == (WELL, [(503, "database_busy")] * 2)
    assert standby == [(503, "database_read_only")] * 2
