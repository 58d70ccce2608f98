"""Checks of what workers ask besides models: the governance engine, SQL databases, other Celery applications."""

from __future__ import annotations

import asyncio
import socket
from urllib.parse import urlsplit

from agents.tools.sql.query import query
from bus.celery_tasks.application import (
    ApplicationAddress,
    address_of,
    close_applications,
    read_applications,
    results_in,
)
from bus.celery_tasks.sender import require_answer
from config.definitions.celery_tasks import CeleryApplication
from config.errors import CallboardError
from config.redis.server import SAFE_POLICY, ask
from config.redis.url import redis_form
from config.settings import Settings
from web.doctor import Verdicts, fail, ok, warn

CONNECT_S = 2.0
_PORTS = {"http": 80, "https": 443}


def check_governance(settings: Settings) -> Verdicts:
    """Yield whether the engine accepts connections; no event is sent. Nothing is said where there is none."""
    if settings.governance_url is None:
        return
    parts = urlsplit(settings.governance_url)
    address = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 443)
    if settings.governance_api_key is None:
        yield warn("CALLBOARD_GOVERNANCE_API_KEY is not set, so that the engine cannot know who asks")
    try:
        socket.create_connection(address, CONNECT_S).close()
    except OSError as error:
        yield fail(
            f"{address[0]}:{address[1]} accepts no connection ({error.strerror or type(error).__name__}): "
            f"{_MEANS[settings.governance_policy]} without it. Start the engine, or correct CALLBOARD_GOVERNANCE_URL."
        )
    else:
        yield ok(f"{address[0]}:{address[1]} accepts connections; {_MEANS[settings.governance_policy]} without it")


_MEANS = {
    "by_effect": "calls with an effect are not made",
    "fail_open": "every call is made",
    "fail_closed": "no call is made",
}


def check_sql_databases(settings: Settings) -> Verdicts:
    """Yield whether each database answers to a role that only reads; nothing where there is none."""
    for name in settings.sql_variables:
        try:
            asyncio.run(query(name, "SELECT 1 AS one", settings))
        except CallboardError as error:
            yield fail(f"{name}: {error}")
        else:
            yield ok(f"{name}: answers, and can only be read")


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
