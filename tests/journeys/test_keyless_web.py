"""The web process that `up` starts holds no provider's key, and `model: auto` means the same as for a worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.models.auto import BY_KEY
from config.redaction.provider_keys import NAMES_HELD
from tests.journeys.neighbour import until
from tests.journeys.up import Up

pytestmark = [pytest.mark.journey, pytest.mark.timeout(120)]

SECRET = "a-value-of-no-known-form-1234"


def test_only_workers_have_the_keys(tmp_path: Path) -> None:
    keys = {"OPENAI_API_KEY": SECRET, "GITHUB_TOKEN": SECRET}
    with Up(tmp_path / "state", "--port", "0", "--workers", "1", CALLBOARD_NO_CONFIG="1", **keys) as up:
        agents = up.get("/v1/agents")["agents"]
        until(lambda: bool(up.children("celery")), 30, "workers are started")
        web = [child.environ() for child in up.children("gunicorn")]
        workers = [child.environ() for child in up.children("celery")]

    assert web
    assert workers
    assert all(SECRET not in environment.values() for environment in web)
    assert {"OPENAI_API_KEY", "GITHUB_TOKEN"} <= set(web[0][NAMES_HELD].split(","))
    assert any(environment.get("OPENAI_API_KEY") == SECRET for environment in workers)
    assert BY_KEY["OPENAI_API_KEY"] in {agent["model"] for agent in agents}
