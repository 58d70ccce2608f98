"""A worker says at its start that its slots do not fit its pool of database connections."""

from __future__ import annotations

import logging

import pytest

from bus.celery_app import app
from bus.journal.stores import pool_problem
from config.settings import Settings
from handlers.worker import process


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
