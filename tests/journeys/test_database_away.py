"""A database that is locked for 10 s, or restarted: clients get an error within 5 s, and runs continue afterwards."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from config.database.engine import open_database
from config.database.migrate import migrate
from config.database.tables import runs
from config.folders import ROOT
from config.settings import Settings
from tests.app_harness import write_agent
from tests.backends import PostgresCluster, postgres_tool
from tests.conftest import need
from tests.fleet import Worker, environment
from tests.journeys.web_server import Answer, Watching, Web
from tests.model_server import ModelServer, Turn

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(120)]

LOCKED_S = 10.0
ANSWER_S = 5.0
"""A door answers within this, whatever the database does."""


@pytest.fixture
def chosen(by_default: Settings) -> Settings:
    """Leases that outlast the lock: the owner stays the owner."""
    return by_default.model_copy(update={"lease_s": 60.0, "beat_s": 5.0, "reap_s": 5.0})


@contextmanager
def locked(settings: Settings) -> Iterator[None]:
    """Hold SQLite's write lock, as another process would."""
    other = sqlite3.connect(settings.database.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield
    other.execute("ROLLBACK")
    other.close()


def assert_refused(answer: Answer, code: str) -> None:
    status, headers, body, took_s = answer
    assert (status, body["code"], headers["Content-Type"]) == (503, code, "application/problem+json")
    assert int(headers["Retry-After"]) > 0
    assert took_s < ANSWER_S


def assert_ordered(events: list[dict[str, Any]]) -> None:
    numbers = [event["seq"] for event in events]
    assert numbers == sorted(set(numbers))
    assert [event["type"] for event in events].count("end") == 1
    assert events[-1]["type"] == "end"


def test_sqlite_locked_for_ten_seconds(chosen: Settings, tmp_path: Path) -> None:
    migrate(chosen)
    words = [f"word{number} " for number in range(240)]
    hello = {"agent": "tester", "input": "Hello"}
    with ModelServer() as model:
        write_agent(tmp_path / "agents", model)
        model.respond = lambda body: Turn(text=words, pace=20 if len(model.requests) == 1 else None)
        with Web(chosen) as web, Worker(chosen, log=chosen.state / "worker.log"):
            run_id = web.ask("/v1/runs", hello)[2]["run_id"]
            watching = Watching(web, run_id)
            while not any(event["type"] == "response" for event in watching.events):
                time.sleep(0.05)  # another process speaks

            with locked(chosen):
                until = time.monotonic() + LOCKED_S
                refused = [web.ask("/v1/runs", hello, Idempotency_Key="once") for _ in range(2)]
                crowd = crowd_of(web, hello)
                listed = web.ask("/v1/runs")
                cancelled = web.ask(f"/v1/runs/{run_id}/cancel", {})
                time.sleep(max(0.0, until - time.monotonic()))  # the lock's length is the scenario
            again = [web.ask("/v1/runs", hello, Idempotency_Key="once") for _ in range(2)]
            seen = watching.to_the_end()

            for answer in (*refused, *crowd, cancelled):
                assert_refused(answer, "database_busy")
            assert listed[0] == 200
            assert [answer[0] for answer in again] == [202, 202]
            assert again[0][2]["run_id"] == again[1][2]["run_id"]
            assert len(web.ask("/v1/runs")[2]["runs"]) == 2
            assert_ordered(seen)
            assert seen[-1]["status"] == "succeeded"
            assert seen == web.events(run_id)[-len(seen) :]
            assert web.events(run_id)[-1]["output"] == "".join(words)
        assert "Traceback" not in web.log.read_text()
    check = sqlite3.connect(chosen.database.removeprefix("sqlite:///"))
    assert check.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    check.close()


def crowd_of(web: Web, body: object, size: int = 15) -> list[Answer]:
    """Return what many who start a run at the same moment are answered."""
    answers: list[Answer] = []
    threads = [threading.Thread(target=lambda: answers.append(web.ask("/v1/runs", body))) for _ in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == size
    return answers


@pytest.mark.postgres
def test_postgres_restarted(chosen: Settings, tmp_path: Path) -> None:
    need(postgres_tool("initdb"), "Postgres (initdb)")
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "assistant.yaml").write_text("name: A\nmodel: demo/assistant\nsystem_prompt: You answer.\n")
    hello = {"agent": "assistant", "input": "Hello"}
    with PostgresCluster() as cluster:
        settings = chosen.model_copy(update={"database_url": cluster.new_database()})
        migrate(settings)
        with Web(settings) as web:
            run_id = web.ask("/v1/runs", hello)[2]["run_id"]
            watching = Watching(web, run_id)

            cluster.stop()
            started = web.ask("/v1/runs", hello, Idempotency_Key="once")
            web.until(503, "/ready")  # it says what a write of the last second found
            requests: dict[str, Any] = {
                "/v1/runs": None,
                f"/v1/runs/{run_id}/cancel": {},
                f"/v1/runs/{run_id}/events": None,
                "/ready": None,
            }
            others = [web.ask(path, body) for path, body in requests.items()]
            health = web.ask("/health")
            cluster.start()
            web.until(200, "/health")
            again = [web.ask("/v1/runs", hello, Idempotency_Key="once") for _ in range(2)]
            cancelled = web.ask(f"/v1/runs/{run_id}/cancel", {})
            seen = watching.to_the_end()

            for answer in (started, *others):
                assert_refused(answer, "database_unreachable")
            assert (health[0], health[2]["database"]) == (503, "database_unreachable")
            assert [answer[0] for answer in (*again, cancelled)] == [202, 202, 200]
            assert again[0][2]["run_id"] == again[1][2]["run_id"]
            assert_ordered(seen)
            assert [event["type"] for event in seen] == ["status", "control", "end"]
            assert seen == web.events(run_id)
        assert "Traceback" not in web.log.read_text()


# --- longer than a lease


@contextmanager
def stopped(cluster: PostgresCluster) -> Iterator[None]:
    cluster.stop()
    try:
        yield
    finally:
        cluster.start()


def test_runs_continue_after_sqlite_was_locked_for_longer_than_a_lease(by_default: Settings, tmp_path: Path) -> None:
    migrate(by_default)

    assert_continues(by_default, tmp_path, locked(by_default))


@pytest.mark.postgres
@pytest.mark.parametrize("away", [stopped, PostgresCluster.frozen])
def test_runs_continue_after_postgres_was_away_for_longer_than_a_lease(
    by_default: Settings, tmp_path: Path, away: Callable[[PostgresCluster], AbstractContextManager[None]]
) -> None:
    need(postgres_tool("initdb"), "Postgres (initdb)")
    with PostgresCluster() as cluster:
        settings = by_default.model_copy(update={"database_url": cluster.new_database()})
        migrate(settings)

        assert_continues(settings, tmp_path, away(cluster))


def assert_continues(settings: Settings, tmp_path: Path, away: AbstractContextManager[None]) -> None:
    """Take the database away from two runs that stream: their owner writes nothing, and continues afterwards."""
    words = [f"word{number} " for number in range(200)]
    with ModelServer() as model:
        write_agent(tmp_path / "agents", model)
        model.respond = lambda body: Turn(text=words, pace=10 if len(model.requests) <= 2 else None)
        worker_log = settings.state / "worker.log"
        with Web(settings) as web, Worker(settings, log=worker_log):
            run_ids = [web.ask("/v1/runs", {"agent": "tester", "input": "Hello"})[2]["run_id"] for _ in range(2)]
            model.wait_for_requests(2, 30)

            with away:
                time.sleep(settings.lease_s + 1)  # the outage's length is the scenario
            back_s = time.monotonic()
            logs = [web.events(run_id) for run_id in run_ids]
            print(f"both runs had ended {time.monotonic() - back_s:.1f} s after the database was back")

            for run_id, events in zip(run_ids, logs, strict=True):
                assert_ordered(events)
                assert (events[-1]["status"], events[-1]["output"]) == ("succeeded", "".join(words))
                attempts = [event["attempt"] for event in events if event.get("status") == "running"]
                assert len(attempts) == 1, "its owner was only cut off, and continued under the same fence"
                assert crashes_of(settings, run_id) == 0
            assert len(model.requests) == 2
        assert "heartbeat failed" in worker_log.read_text()
        for log in (web.log, worker_log):
            assert "Traceback" not in log.read_text()


def crashes_of(settings: Settings, run_id: str) -> int:
    database = open_database(settings.database)
    try:
        with database.read() as connection:
            return int(connection.execute(select(runs.c.crashes).where(runs.c.id == run_id)).scalar_one())
    finally:
        database.close()


# --- on the terminal


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(("run", "assistant", "Hello", "--detach"), 1), (("run", "assistant", "Hello"), 1), (("runs",), 0)],
    ids=["detached", "here", "list"],
)
def test_the_terminal_says_one_sentence(settings: Settings, arguments: tuple[str, ...], status: int) -> None:
    chosen = settings.model_copy(update={"agents_dir": "config/agents"})
    migrate(chosen)

    with locked(chosen):
        ended = terminal(chosen, *arguments)

    assert ended.returncode == status
    lines = ended.stderr.splitlines()
    assert [line for line in lines if line.startswith("error: ")] == lines[len(lines) - (status == 1) :]
    assert ("[database_busy]" in ended.stderr) is (status == 1)
    assert "Traceback" not in ended.stderr


def test_the_terminal_says_that_a_database_can_only_be_read(settings: Settings) -> None:
    chosen = settings.model_copy(update={"agents_dir": "config/agents"})
    migrate(chosen)
    path = chosen.database.removeprefix("sqlite:///")

    reading = chosen.model_copy(update={"database_url": f"sqlite:///file:{path}?mode=ro&uri=true"})
    ended = terminal(reading, "run", "assistant", "Hello")

    assert ended.returncode == 1
    assert ended.stderr.count("error: ") == 1
    assert "[database_read_only]" in ended.stderr


def terminal(settings: Settings, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "cli", *arguments]
    chosen = environment(settings) | {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
    return subprocess.run(command, env=chosen, capture_output=True, text=True, check=False, timeout=60)
