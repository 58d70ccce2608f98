"""A fleet for a module: its own Redis, database, model server, agents and worker process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.runner import Runner
from config.migrate import migrate
from config.settings import Settings
from tests.backends import RedisServer
from tests.fleet import Worker
from tests.house import House
from tests.model_server import ModelServer


@pytest.fixture(scope="module")
def fleet_settings(tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer) -> Settings:
    """Settings of a world of this module's own, with its schema made."""
    folder = tmp_path_factory.mktemp("fleet")
    settings = Settings(
        _env_file=None,  # type: ignore[call-arg]  # pydantic-settings' own; a developer's .env is not the tests'
        state_dir=folder / "state",
        redis_url=redis_server.url,
        deployment=folder.name,
        agents_dir=f"{folder / 'agents'}:config/agents",
        slots=50,
        workers=1,
    )
    migrate(settings)
    return settings


@pytest.fixture(scope="module")
def fleet_model() -> Iterator[ModelServer]:
    """The model server of this module."""
    with ModelServer() as server:
        yield server


@pytest.fixture(scope="module")
def fleet_house(fleet_settings: Settings, fleet_model: ModelServer) -> Iterator[House]:
    """The runner of this module, on both routes."""
    runner = Runner.open(fleet_settings)
    yield House(runner, fleet_model, Path(fleet_settings.agents_dir.split(":")[0]))
    runner.settle(10)
    runner.close()


@pytest.fixture(scope="module")
def worker(fleet_settings: Settings, fleet_house: House) -> Iterator[Worker]:
    """A worker process on the threads pool."""
    with Worker(fleet_settings, log=fleet_settings.state / "worker.log") as process:
        yield process
