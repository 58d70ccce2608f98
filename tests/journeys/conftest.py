"""A fleet for a module: its own Redis, database, model server, agents and worker process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agents.runner import Runner
from config.database.migrate import migrate
from config.settings import Settings
from tests.app_harness import AppHarness
from tests.backends import RedisServer
from tests.fleet import Worker
from tests.model_server import ModelServer
from tests.ports import free_port
from tests.venvs import build_client


@pytest.fixture(scope="session")
def client_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the client, built once for all processes of pytest-xdist."""
    own = tmp_path_factory.getbasetemp()
    return build_client((own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "client-wheel")


@pytest.fixture(scope="module")
def fleet_settings(tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer) -> Settings:
    """Settings of this module's own deployment, with its schema made."""
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
def provider() -> str:
    """How agents ask the model server; a module about LiteLLM has a fixture of its own that says ``openai``."""
    return "scripted"


@pytest.fixture(scope="module")
def fleet_harness(fleet_settings: Settings, fleet_model: ModelServer, provider: str) -> Iterator[AppHarness]:
    """The runner of this module, on both routes."""
    runner = Runner.open(fleet_settings)
    yield AppHarness(runner, fleet_model, Path(fleet_settings.agents_dir.split(":")[0]), provider)
    runner.settle(10)
    runner.close()


@pytest.fixture
def open_harness(settings: Settings, redis_url: str, tmp_path: Path) -> Iterator[Callable[..., AppHarness]]:
    """Opens a harness of this test's own, once; what is given are settings."""
    with ModelServer() as model, ExitStack() as closing:

        def opened(**chosen: Any) -> AppHarness:
            ours = settings.model_copy(
                update={"redis_url": redis_url, "agents_dir": str(tmp_path / "agents"), **chosen}
            )
            ours.state.mkdir()
            migrate(ours)
            runner = Runner.open(ours)
            closing.callback(runner.close)
            return AppHarness(runner, model, tmp_path / "agents")

        yield opened


@pytest.fixture
def brisk_harness(open_harness: Callable[..., AppHarness]) -> AppHarness:
    """One that looks for lost runs often; its leases outlast a busy machine."""
    return open_harness(lease_s=15.0, beat_s=5.0, reap_s=0.5, slots=20)


@pytest.fixture(scope="module")
def worker(fleet_settings: Settings, fleet_harness: AppHarness) -> Iterator[Worker]:
    """A worker process on the threads pool."""
    with Worker(fleet_settings, log=fleet_settings.state / "worker.log") as process:
        yield process


@pytest.fixture
def by_default(redis_settings: Settings, tmp_path: Path) -> Settings:
    """Settings with a port of its own, and the periods of an installation that set none."""
    port = free_port()
    (tmp_path / "state").mkdir()
    periods = {name: Settings.model_fields[name].default for name in ("lease_s", "beat_s", "reap_s")}
    return redis_settings.model_copy(update={"agents_dir": str(tmp_path / "agents"), "port": port, **periods})
