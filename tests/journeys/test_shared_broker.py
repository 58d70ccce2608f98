"""Two deployments with one RabbitMQ: each run is woken by its own worker, and not found by chance later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kombu import Connection

from agents.runner import Runner
from bus.broker.celery_config import queue_of
from config.database.migrate import migrate
from config.settings import Settings
from tests.app_harness import write_agent
from tests.bus.broker.test_shared_broker import RABBITMQ, rabbitmq
from tests.fleet import Worker
from tests.model_server import ModelServer

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]

__all__ = ["rabbitmq"]
RUNS = 6
LONG_S = 120.0
"""Between two looks of a worker into the database: within the test only a wake-up brings a run to it."""


@pytest.fixture
def deployments(
    settings: Settings, redis_url: str, deployment: str, tmp_path: Path, rabbitmq: Connection
) -> Iterator[list[Settings]]:
    """Two deployments, each with its own database; their queues are removed afterwards."""
    chosen = [
        settings.model_copy(
            update={
                "redis_url": redis_url,
                "broker_url": RABBITMQ,
                "deployment": f"{deployment}.{name}",
                "database_url": f"sqlite:///{tmp_path / name}.db",
                "state_dir": tmp_path / name,
                "agents_dir": str(tmp_path / "agents"),
                "slots": 20,
                "reap_s": LONG_S,
            }
        )
        for name in ("ours", "theirs")
    ]
    for each in chosen:
        each.state.mkdir()
        migrate(each)
    yield chosen
    for each in chosen:
        queue_of(each, each.queue)(rabbitmq.default_channel).delete()
        queue_of(each, each.queue).exchange(rabbitmq.default_channel).delete()


def test_each_deployments_runs_are_worked_off_by_its_own_worker(deployments: list[Settings], tmp_path: Path) -> None:
    with ModelServer() as model, ExitStack() as ending:
        write_agent(tmp_path / "agents", model)
        for each in deployments:
            ending.enter_context(Worker(each, log=each.state / "worker.log"))
        runners = [Runner.open(each) for each in deployments]
        handles = [runner.run("Hello", "tester", detached=True) for _ in range(RUNS) for runner in runners]

        ends = [handle.result(30) for handle in handles]
        for runner in runners:
            runner.close()

    assert [end.status for end in ends] == ["succeeded"] * 2 * RUNS
