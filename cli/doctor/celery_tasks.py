"""Checks of the Celery applications whose tasks agents may call: their files, brokers and result backends."""

from __future__ import annotations

import asyncio

from bus.celery_tasks.application import (
    ApplicationAddress,
    address_of,
    close_applications,
    read_applications,
    results_in,
)
from bus.celery_tasks.sender import require_answer
from cli.doctor.finding import Verdicts, fail, ok, warn
from config.definitions.celery_tasks import CeleryApplication
from config.errors import CallboardError
from config.redis.server import SAFE_POLICY, ask
from config.redis.url import redis_form
from config.settings import Settings


def check_celery_tasks(settings: Settings) -> Verdicts:
    """Yield what is wrong with each application; nothing where there is none."""
    applications, broken = read_applications(settings.celery_tasks_folders)
    for error in broken:
        yield fail(str(error))
    for application in applications:
        yield from _checked(application, settings)
    close_applications()


def _checked(application: CeleryApplication, settings: Settings) -> Verdicts:
    try:
        address = address_of(application, settings)
        require_answer(address.broker)
        if address.results is not None:
            asyncio.run(_read(address))
    except CallboardError as error:
        yield fail(f"{application.id}: {error}")
        return
    url = redis_form(address.results or "")
    if url is not None and (policy := ask(url).policy) != SAFE_POLICY:
        yield warn(
            f"{application.id}: the Redis of its results evicts keys when memory is short (maxmemory-policy {policy}), "
            f"so that a result can be lost; set {SAFE_POLICY}"
        )
    if not application.tracks_starts and any(task.waits for task in application.tasks.values()):
        yield warn(
            f"{application.id}: it does not record when a task begins, so that a call without a result in time is "
            "unknown; set task_track_started=True there, and publish again or write tracks_starts: true here"
        )
    yield ok(f"{application.id}: {len(application.tasks)} tasks; broker and results answer")


async def _read(address: ApplicationAddress) -> None:
    results = results_in(address)
    try:
        await results.states(["callboard-doctor"])
    finally:
        results.close()
