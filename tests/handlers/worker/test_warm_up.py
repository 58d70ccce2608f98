"""What needs LiteLLM, and what does not."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from agents.registry import AgentRegistry
from bus.celery_app import app
from bus.journal.stores import pool_problem
from cli.supervisor.serving import clean_environment
from config.settings import Settings
from handlers.worker import process
from handlers.worker.warm_up import needs_litellm
from tests.processes import folder_variables, run_python

AGENT = "name: A\nmodel: {model}\nsystem_prompt: You answer.\n"


def write_agents(folder: Path, **models: str) -> None:
    (folder / "agents").mkdir()
    (folder / "state").mkdir()
    for name, model in models.items():
        (folder / "agents" / f"{name}.yaml").write_text(AGENT.format(model=model))


@pytest.mark.parametrize(
    ("models", "environment", "needed"),
    [
        ({}, {}, False),
        ({"a": "demo/assistant", "b": "demo/instant"}, {}, False),
        ({"a": "demo/assistant", "b": "openai/gpt-5-mini"}, {}, True),
        ({"a": "auto"}, {"OPENAI_API_KEY": "sk-x"}, True),
        ({"a": "auto"}, {}, False),
        ({"a": "[not, a, name]"}, {}, False),
    ],
)
def test_says_whether_an_installation_needs_litellm(
    tmp_path: Path, models: dict[str, str], environment: dict[str, str], needed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.models.auto.OLLAMA_URL", "")  # an Ollama on this machine
    write_agents(tmp_path, **models)

    assert needs_litellm(AgentRegistry((tmp_path / "agents",)), environment) is needed


@pytest.mark.parity
def test_a_run_at_the_terminal_imports_no_litellm(tmp_path: Path) -> None:
    write_agents(tmp_path, demo="demo/instant")
    code = (
        "import sys; from cli.main import status_of\n"
        "status = status_of(['run', 'demo', 'What is 17 * 23?'])\n"
        "print(status, [name for name in ('litellm', 'openai') if name in sys.modules])"
    )
    ran = run_python("-c", code, env=clean_environment() | folder_variables(tmp_path), timeout_s=55)

    assert ran.stdout.splitlines()[-1] == "0 []", ran.stderr


class Sender:
    """Celery's worker, as far as the signal shows it."""

    app = app


@pytest.mark.parity  # it looks for the Redis of an `up`
@pytest.mark.parametrize(("pool", "is_warned"), [(22, False), (21, True)])
def test_a_worker_warns_of_a_pool_that_is_too_small_for_its_slots(
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    pool: int,
    is_warned: bool,
) -> None:
    narrow = settings.model_copy(update={"database_pool_size": pool, "database_max_overflow": 0, "slots": 200})
    monkeypatch.setattr(process, "settings", lambda: narrow)

    with caplog.at_level(logging.WARNING):
        process.warn_of_configuration(Sender())

    assert (str(pool_problem(narrow)) in caplog.text) is is_warned
