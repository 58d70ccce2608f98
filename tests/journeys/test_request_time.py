"""The whole of a request has a limit: while a locked database holds all threads, each client gets its 503 in time."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine

from config.database.migrate import migrate
from config.settings import Settings
from tests.journeys.web_server import Answer, Web
from tests.ports import free_port
from web import gunicorn_conf

pytestmark = [pytest.mark.journey, pytest.mark.timeout(120)]

LIMIT_S = 3.0
CROWD = 3 * gunicorn_conf.threads
"""Two thirds of these wait for a thread; each transaction waits up to four seconds for the lock."""
AGENT = "name: Assistant\nmodel: demo/assistant\nsystem_prompt: You answer.\n"
HELLO = {"agent": "assistant", "input": "Hello"}


@pytest.fixture(params=["database_url", pytest.param("postgres_url", marks=pytest.mark.postgres)])
def web(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Web]:
    for name in ("agents", "state"):
        (tmp_path / name).mkdir(mode=0o700)
    (tmp_path / "agents" / "assistant.yaml").write_text(AGENT)
    settings = Settings(
        _env_file=None,  # type: ignore[call-arg]  # pydantic-settings' own
        state_dir=tmp_path / "state",
        agents_dir=str(tmp_path / "agents"),
        database_url=request.getfixturevalue(request.param),
        port=free_port(),
        request_timeout_s=LIMIT_S,
    )
    migrate(settings)
    with Web(settings) as server:
        yield server


@contextmanager
def locked(settings: Settings) -> Iterator[None]:
    """Hold the lock that a start needs, as another program would."""
    if settings.database.startswith("sqlite"):
        other = sqlite3.connect(settings.database.removeprefix("sqlite:///"), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        yield
        other.close()
        return
    with create_engine(settings.database, poolclass=NullPool).connect() as connection:
        connection.exec_driver_sql("LOCK TABLE runs IN ACCESS EXCLUSIVE MODE")
        yield


def crowd_of(web: Web, size: int) -> list[Answer]:
    """Return what many who start a run at the same moment are answered, each under a key of its own."""
    answers: dict[int, Answer] = {}

    def start(number: int) -> None:
        answers[number] = web.ask("/v1/runs", HELLO, Idempotency_Key=f"key-{number}")

    starts = [threading.Thread(target=start, args=(number,)) for number in range(size)]
    for thread in starts:
        thread.start()
    for thread in starts:
        thread.join()
    return [answers[number] for number in range(size)]


def test_a_locked_database_delays_no_request_beyond_the_limit_and_starts_nothing_twice(web: Web) -> None:
    assert web.ask("/v1/runs", HELLO)[0] == 202

    with locked(web.settings):
        refused = crowd_of(web, CROWD)
    again = [crowd_of(web, CROWD) for _ in range(2)]

    print(
        f"answered after {min(refusal[3] for refusal in refused):.1f} to {max(refusal[3] for refusal in refused):.1f} s"
    )
    assert {refusal[0] for refusal in refused} == {503}
    assert {refusal[2]["code"] for refusal in refused} <= {"database_busy", "database_unreachable", "overloaded"}
    assert all(int(refusal[1]["Retry-After"]) > 0 for refusal in refused)
    assert max(refusal[3] for refusal in refused) < 2 * LIMIT_S
    started = [[answer[2]["run_id"] for answer in answers] for answers in again]
    assert started[0] == started[1]
    assert len(web.ask("/v1/runs?limit=200")[2]["runs"]) == CROWD + 1
    assert "Traceback" not in web.log.read_text()
