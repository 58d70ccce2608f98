"""`/ready`: 200 where runs are accepted and a living worker executes them; and how many workers are still to come."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from agents.runner import Runner
from bus.identity.credentials.local_token import local_token
from bus.journal import Journal
from cli.supervisor.pid_lock import PidLock
from config.database.tables import workers
from config.settings import Settings
from tests.web.conftest import process_of, serve_queues
from tests.web.test_keys import bearer
from web.app import create_app
from web.fleet import START_UP_S, without_worker, workers_starting

LARGE = "name: Large\nmodel: demo/assistant\nsystem_prompt: x\nqueue: gpu\n"


@pytest.fixture
def gpu(settings: Settings) -> None:
    """An agent whose runs go to the queue `gpu`, beside the one whose runs go to the default queue."""
    (settings.agent_folders[0] / "large.yaml").write_text(LARGE)


def statuses(client: Any) -> tuple[int, str]:
    """Return the status of `/ready`, and what `/health` says at the same time."""
    return client.get("/ready").status_code, client.get("/health").json["status"]


@pytest.mark.parity
def test_nothing_is_ready_before_a_worker_comes_and_after_it_has_gone(client, journal: Journal) -> None:
    before, waiting = statuses(client), client.get("/ready")
    worker = serve_queues(journal, "runs")
    during = statuses(client)
    journal.stores.workers.forget(worker.id)

    assert (before, during, statuses(client)) == ((503, "degraded"), (200, "ok"), (503, "degraded"))
    assert (waiting.json["status"], waiting.json["unserved_queues"]) == ("unavailable", ["runs"])
    assert "`./callboard worker --queues runs`" in waiting.json["detail"]
    assert int(waiting.headers["Retry-After"]) >= 1
    assert client.post("/v1/runs", json={"agent": "assistant", "input": "Hello"}).status_code == 202


def test_a_busy_worker_is_ready_and_one_that_is_silent_for_long_is_not(client, journal: Journal) -> None:
    worker = serve_queues(journal, "runs", slots=1, busy=1)
    busy = statuses(client)
    with journal.database.write() as connection:
        connection.execute(workers.update().values(seen_ms=workers.c.seen_ms - 60_000))

    assert worker.busy == worker.slots
    assert (busy, statuses(client)) == ((200, "ok"), (503, "degraded"))


@pytest.mark.usefixtures("gpu")
def test_one_of_several_queues_is_enough_and_the_others_are_named(client, journal: Journal) -> None:
    none = client.get("/ready")
    serve_queues(journal, "gpu")
    some = client.get("/ready")
    serve_queues(journal, "gpu", "runs")

    assert (none.status_code, none.json["unserved_queues"]) == (503, ["runs", "gpu"])
    assert (some.status_code, some.json["unserved_queues"]) == (200, ["runs"])
    assert "`./callboard worker --queues runs`" in some.json["detail"]
    assert client.get("/ready").json == {"status": "ready"}


@pytest.mark.usefixtures("gpu")
def test_workers_of_queues_that_no_agent_uses_do_not_count(client, journal: Journal) -> None:
    serve_queues(journal, "mail")

    assert statuses(client) == (503, "degraded")


def test_without_agents_the_default_queue_is_the_one_in_use(client, journal: Journal, settings: Settings) -> None:
    (settings.agent_folders[0] / "assistant.yaml").unlink()
    before = statuses(client)
    serve_queues(journal, "runs")

    assert (before, statuses(client)) == ((503, "degraded"), (200, "ok"))


@pytest.mark.parity  # it looks for the Redis of an `up`
def test_a_process_that_executes_runs_itself_needs_no_worker(settings: Settings) -> None:
    runner = Runner.open(settings)
    with closing(runner), opened(settings, runner) as app:
        answer = app.test_client().get("/ready")

    assert (answer.status_code, answer.get_json()["status"]) == (200, "ready")
    assert answer.get_json()["unserved_queues"] == ["runs"], "where detached runs wait"


def test_strangers_get_the_status_of_the_last_second(
    settings: Settings, runner: Runner, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("web.api.health.FRESH_S", 3600.0)
    with opened(settings.model_copy(update={"auth": "local"}), runner) as app:
        client = app.test_client()
        first = client.get("/ready")
        serve_queues(journal, "runs")
        with monkeypatch.context() as patch:
            patch.setattr(journal.stores, "workers", None)
            patch.setattr(journal.stores, "write_probe", None)
            again = [client.get("/ready") for _ in range(20)]
        with_credential = client.get("/ready", headers=bearer(local_token(settings)))

    assert (first.status_code, first.json) == (503, {"status": "unavailable"})
    assert "Retry-After" in first.headers
    assert {answer.status_code for answer in again} == {503}, "without a look at the database"
    assert with_credential.json == {"status": "ready"}


@contextmanager
def opened(settings: Settings, runner: Runner) -> Iterator[Flask]:
    """Yield the application of a web process with this runner."""
    app = create_app(settings, runner)
    yield app
    process_of(app).close()


@pytest.fixture
def lock(tmp_path: Path) -> PidLock:
    lock = PidLock(tmp_path / "up.lock")
    assert lock.take() is None
    lock.announce("http://127.0.0.1:8000", workers=2)
    return lock


@pytest.mark.parametrize(("alive", "starting"), [(0, 2), (1, 1), (2, 0), (3, 0)])
def test_workers_without_a_heartbeat_yet_are_starting(tmp_path: Path, lock: PidLock, alive: int, starting: int) -> None:
    assert workers_starting(tmp_path, alive) == starting
    lock.release()


def test_after_a_while_a_worker_that_did_not_come_is_not_starting(tmp_path: Path, lock: PidLock) -> None:
    path = tmp_path / "up.lock"
    long_ago = path.stat().st_mtime - START_UP_S - 1
    os.utime(path, (long_ago, long_ago))

    assert without_worker(tmp_path) == "no worker is alive"
    lock.release()


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"pid": 1}', json.dumps({"pid": 2**22 + 1, "address": "", "workers": 2}), '{"pid": "x"}'],
)
def test_without_an_up_no_worker_is_starting(tmp_path: Path, content: str) -> None:
    assert workers_starting(tmp_path) == 0
    (tmp_path / "up.lock").write_text(content)

    assert workers_starting(tmp_path) == 0


def test_the_words_have_both_numbers(tmp_path: Path, lock: PidLock) -> None:
    assert without_worker(tmp_path) == "workers are starting (0 of 2)"
    lock.release()
