"""A Postgres whose processes are stopped: it keeps its connections, and says nothing. Every door answers in time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import event, func, select

from agents.runner import Runner
from config.database.migrate import migrate
from config.database.tables import runs
from config.settings import Settings
from tests.backends import PostgresCluster
from tests.web.conftest import opened, process_of
from tests.web.test_database_away import HELLO, READING, WRITING
from web import app as web_app
from web.app import create_app

pytestmark = [pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(120)]

DOOR_S = 5.0
KEY = {"Idempotency-Key": "once"}


@pytest.fixture
def runner(settings: Settings, postgres_url: str, tmp_path: Path) -> Iterator[Runner]:
    (tmp_path / "postgres").mkdir()
    ours = settings.model_copy(update={"database_url": postgres_url, "state_dir": tmp_path / "postgres"})
    migrate(ours)
    with opened(ours) as new_runner:
        yield new_runner


@pytest.fixture
def client(runner: Runner) -> Iterator[FlaskClient]:
    app = create_app(runner.settings, runner)
    yield app.test_client()
    process_of(app).close()


def timed(client: FlaskClient, method: str, path: str, body: object, **headers: str) -> tuple[Any, float]:
    began_s = time.monotonic()
    answer = client.open(path, method=method, json=body, headers=headers)
    return answer, time.monotonic() - began_s


def assert_away(answer: Any) -> None:
    assert (answer.status_code, answer.json["code"]) == (503, "database_unreachable")
    assert int(answer.headers["Retry-After"]) >= 1


def count(runner: Runner) -> int:
    with runner.journal.database.read() as connection:
        return int(connection.execute(select(func.count()).select_from(runs)).scalar_one())


def test_a_start_is_refused_in_time_and_its_key_is_one_run_afterwards(
    client: FlaskClient, runner: Runner, postgres_cluster: PostgresCluster
) -> None:
    client.post("/v1/runs", json=HELLO)

    with postgres_cluster.frozen():
        refused = [timed(client, "POST", "/v1/runs", HELLO, **KEY) for _ in range(2)]
    again = [timed(client, "POST", "/v1/runs", HELLO, **KEY)[0] for _ in range(2)]

    for answer, took_s in refused:
        assert_away(answer)
        assert took_s <= DOOR_S
    assert [answer.status_code for answer in again] == [202, 202]
    assert len({answer.json["run_id"] for answer in again}) == 1
    assert count(runner) == 2


def test_a_start_whose_commit_got_no_answer_is_one_run_under_its_key(
    client: FlaskClient, runner: Runner, postgres_cluster: PostgresCluster
) -> None:
    client.post("/v1/runs", json=HELLO)
    engine, frozen, armed = runner.journal.database.engine, ExitStack(), [True]
    turn = threading.Lock()

    def freeze(_connection: Any) -> None:
        with turn:  # another thread's commit, behind the request's, would freeze the server for good
            if armed and armed.pop():
                frozen.enter_context(postgres_cluster.frozen())

    event.listen(engine, "commit", freeze)  # and never removed: other threads commit meanwhile
    with frozen:
        refused, took_s = timed(client, "POST", "/v1/runs", HELLO, **KEY)
        with turn:
            armed.clear()
    again = client.post("/v1/runs", json=HELLO, headers=KEY)

    assert_away(refused)
    assert took_s <= DOOR_S
    assert again.status_code == 202
    assert count(runner) == 2


@pytest.mark.parametrize(("method", "path", "body"), [*WRITING, *READING, ("DELETE", "/v1/threads/talk", None)])
def test_every_door_answers_in_time(
    client: FlaskClient,
    monkeypatch: pytest.MonkeyPatch,
    postgres_cluster: PostgresCluster,
    method: str,
    path: str,
    body: object,
) -> None:
    monkeypatch.setattr(web_app, "ANSWER_S", 2.5)  # a connection takes two
    run = timed(client, "POST", "/v1/runs", HELLO | {"thread_id": "talk"})[0].json["run_id"]

    with postgres_cluster.frozen():
        answer, took_s = timed(client, method, path.format(run=run), body)

    assert_away(answer)
    assert took_s <= DOOR_S
    assert client.get(f"/v1/runs/{run}").status_code == 200
