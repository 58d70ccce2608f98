"""``create_openbox_worker``: a worker for programs that start one themselves, and never without an engine."""

from __future__ import annotations

import os

from celery.worker import WorkController

from bus.celery_app import app
from config.errors import SettingInvalid
from config.settings import settings


def create_openbox_worker(
    *,
    max_concurrent_workflow_tasks: int | None = None,
    max_concurrent_activity_tasks: int | None = None,
    max_cached_workflows: int | None = None,
) -> WorkController:
    """Return a Celery worker of this process whose calls of models and tools a governance engine decides about.

    It is the worker that ``./callboard worker`` starts: ``start()`` executes runs until SIGTERM, and then ends the
    process. The arguments are those of the OpenBox design, and None leaves the setting as it is: runs at once
    (``CALLBOARD_SLOTS``), plain functions of tools at once (``CALLBOARD_TOOL_THREADS``), and definitions whose tools
    are kept (``CALLBOARD_CACHED_DEFINITIONS``).

    Raises:
        SettingInvalid: no engine is set, spans are off, or an argument is out of its setting's range.
    """
    numbers = {
        "CALLBOARD_SLOTS": max_concurrent_workflow_tasks,
        "CALLBOARD_TOOL_THREADS": max_concurrent_activity_tasks,
        "CALLBOARD_CACHED_DEFINITIONS": max_cached_workflows,
    }
    os.environ.update({name: str(number) for name, number in numbers.items() if number is not None})
    settings.cache_clear()  # Celery's configuration, and what a child process reads, are made of them
    if settings().governance_url is None:
        raise SettingInvalid(
            "create_openbox_worker() needs CALLBOARD_GOVERNANCE_URL (or OPENBOX_URL): no engine would be asked. "
            "Set it, or start a worker without an engine with `./callboard worker`."
        )
    if not settings().spans:
        raise SettingInvalid("create_openbox_worker() sends spans to the engine: remove CALLBOARD_SPANS=false.")
    return app.Worker(quiet=True, without_gossip=True, without_mingle=True, without_heartbeat=True)
