"""The agents' tests' kit, and their harness: a model server on a socket, and a runner."""

from __future__ import annotations

import pytest

from bus.celery_app import app
from config.settings import Settings
from tests.agents.conftest import harness, kit, model

__all__ = ["harness", "kit", "model"]


@pytest.fixture(scope="session", autouse=True)
def bound_tasks(usual_settings: Settings) -> None:
    """Tasks can be called, as in a worker that has started; Celery binds them when it first looks for one by name.

    It also reads its configuration then, which would be that of the developer's checkout, with the Redis that runs.
    """
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("bus.celery_app.settings", lambda: usual_settings)
        monkeypatch.setattr("bus.celery_app.with_running_redis", lambda value: value)
        app.finalize()
