"""Agents in this process: with the kit's scripted model, or through LiteLLM and a model server on a socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.runner import Runner
from agents.testing import AgentKit
from config.database.migrate import migrate
from config.settings import Settings
from handlers import run_agent
from tests.app_harness import AppHarness
from tests.model_server import ModelServer


@pytest.fixture(autouse=True)
def resumed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that wait for a person continue right after the answer: the tests answer at once."""
    monkeypatch.setattr(run_agent, "WAITING_S", 0.03)
    monkeypatch.setattr(run_agent, "TURN_S", 0.03)


@pytest.fixture
def kit() -> Iterator[AgentKit]:
    """An agent called ``tester`` in memory, and its scripted model."""
    with AgentKit() as agent_kit:
        yield agent_kit


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """A model server of this test's own."""
    with ModelServer() as server:
        yield server


@pytest.fixture
def harness(settings: Settings, tmp_path: Path, model: ModelServer) -> Iterator[AppHarness]:
    """A runner and an agent called ``tester``."""
    # A lease that outlives LiteLLM's first call, which holds the loop for half a second and more.
    ours = settings.model_copy(update={"agents_dir": str(tmp_path / "agents"), "lease_s": 15.0, "beat_s": 5.0})
    migrate(ours)
    runner = Runner.open(ours)
    harness = AppHarness(runner, model, tmp_path / "agents", "openai")
    harness.agent()
    yield harness
    runner.settle(10)
    runner.close()
