"""How a look is taken, and an application of Celery's that no other test has set up."""

from __future__ import annotations

import pytest
from celery import Celery

from bus.broker.celery_config import celery_config
from config.settings import Settings
from tests.web.doctor.conftest import database as database
from tests.web.doctor.conftest import only as only
from tests.web.doctor.conftest import verdicts as verdicts


@pytest.fixture
def celery_app(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Celery:
    """The process's application, set up for this test's settings."""
    app = Celery("callboard", set_as_current=False)
    app.add_defaults(lambda: celery_config(settings))
    monkeypatch.setattr("bus.celery_app.app", app)
    return app
