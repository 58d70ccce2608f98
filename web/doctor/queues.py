"""Checks of Celery: its effective configuration, and that a live worker serves each queue that is used or named."""

from __future__ import annotations

import os
from collections.abc import Iterable

from kombu import Connection as BrokerConnection

from agents.registry import AgentRegistry
from bus.broker.celery_config import MEMORY_BROKER, queue_of
from bus.broker.celery_rules import broken_rules
from bus.journal.readers import Runs
from bus.journal.stores import Workers
from bus.keys import Keys
from bus.redis_wire import with_running_redis
from config.database.engine import Database
from config.definitions.agent import AgentDefinition
from config.errors import CallboardError
from config.redis.server import CONNECT_TIMEOUT_S, ask, require_broker
from config.redis.url import broker_form, redis_form
from config.settings import Settings
from web.doctor import Judged, Verdicts, fail, ok, warn
from web.doctor.database import reading_database

MAX_ROUNDS = 500
"""Most scans, of a thousand keys each, of a Redis that may be full of other keys."""
PRIORITY = "\x06\x16"
"""What kombu puts between a queue's name and a priority."""


def check_celery(settings: Settings) -> Verdicts:
    """Yield the settings that lose work. Only a worker knows its own command line, so it checks that itself.

    What is checked is our file, the plugins and the environment combined.
    """
    from bus.celery_app import app

    broken = list(broken_rules(app.conf, with_running_redis(settings), os.environ))
    yield from broken
    if not broken:
        yield ok("JSON alone, no remote control, early acknowledgement")


@reading_database
def check_queues(settings: Settings, database: Database) -> Verdicts:
    """Yield the queues that no live worker serves, with the runs and messages that wait in them."""
    consumed = {name for worker in Workers(database).alive() for name in worker["queues"] or [settings.queue]}
    queued = Runs(database).queued(settings.queue)
    agents = _agents_by_queue(settings)
    try:
        messages = waiting(settings, {*agents, *queued})
    except CallboardError:
        yield warn(
            "the messages in it could not be counted, since the broker does not answer; start it, or correct its URL"
        )
        messages = None
    verdict, text = _default_queue(settings, consumed, queued.get(settings.queue, 0), messages)
    if messages is not None or verdict != "ok":
        yield verdict, text
    messages = messages or {}
    for name in sorted({*agents, *queued, *messages} - consumed - {settings.queue}):
        yield _unserved(settings, name, queued.get(name, 0), messages.get(name, 0), agents.get(name, []))


def _agents_by_queue(settings: Settings) -> dict[str, list[str]]:
    """Return the agents that name a queue, by queue; ``check_agents`` reports broken definitions."""
    agents: dict[str, list[str]] = {}
    for agent in AgentRegistry(settings.agent_folders).all():
        if isinstance(agent, AgentDefinition) and agent.queue is not None:
            agents.setdefault(agent.queue, []).append(agent.id)
    return agents


def _unserved(settings: Settings, name: str, queued: int, messages: int, agents: list[str]) -> Judged:
    start = f"which no living worker serves. Start `./callboard worker --queues {name}`"
    if queued:
        return fail(f"{_many(queued, 'run')} and {_many(messages, 'message')} waiting in '{name}', {start}.")
    if agents:
        listing = ", ".join(f"'{agent}'" for agent in agents)
        return warn(f"agent {listing} names queue '{name}', {start}, or take `queue:` out of the definition.")
    return warn(
        f"{_many(messages, 'message')} in '{name}', {start}, or throw them away (`redis-cli del "
        f"'{Keys(settings.deployment).prefix}{name}'`): runs are in SQL and are woken anew."
    )


def _default_queue(settings: Settings, consumed: set[str], queued: int, messages: dict[str, int] | None) -> Judged:
    """Return whether a worker serves the default queue; ``messages`` is None if they could not be counted."""
    in_broker = None if messages is None else messages.get(settings.queue, 0)
    counted = "" if in_broker is None else f" and {_many(in_broker, 'message')}"
    waits = f"{_many(queued, 'run')}{counted} waiting"
    if settings.queue in consumed:
        return ok(f"'{settings.queue}' is consumed; {waits}")
    if consumed:
        listing = ", ".join(f"'{name}'" for name in sorted(consumed))
        return fail(
            f"workers alive consume {listing}, this deployment publishes to '{settings.queue}' ({waits}). Start both "
            f"with one CALLBOARD_QUEUE: restart the workers with CALLBOARD_QUEUE={settings.queue}, or set it to theirs "
            "here."
        )
    if queued or in_broker:
        return fail(f"{waits} in '{settings.queue}', and no worker is alive. Start `./callboard worker` (or `up`).")
    return warn(
        "no worker is alive, so `/ready` is 503; nothing waits yet. "
        "`./callboard up` or `./callboard worker` starts some."
    )


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def waiting(settings: Settings, named: Iterable[str] = ()) -> dict[str, int]:
    """Return how many messages wait, by queue: in Redis all of this deployment's, in another broker the named ones.

    Raises:
        RedisUnreachable: the broker does not answer.
    """
    url = settings.broker_url or with_running_redis(settings).redis_url
    if url is None or url.startswith(MEMORY_BROKER):
        return {}
    as_redis = redis_form(url)
    if as_redis is not None:
        ask(as_redis)  # its error names the server
        return _lists(as_redis, Keys(settings.deployment).prefix)
    require_broker(url)
    with BrokerConnection(broker_form(url), connect_timeout=CONNECT_TIMEOUT_S) as connection:
        return {name: _count(connection, queue_of(settings, name).name) for name in {settings.queue, *named}}


def _count(connection: BrokerConnection, name: str) -> int:
    with connection.channel() as channel:  # an error closes it
        try:
            return int(channel.queue_declare(name, passive=True).message_count)
        except connection.channel_errors:  # it does not exist: nothing was ever published
            return 0


def _lists(url: str, prefix: str) -> dict[str, int]:
    """Return the lengths of the lists under the prefix, which kombu would leave out here."""
    import redis

    lengths: dict[str, int] = {}
    cursor = 0
    with redis.Redis.from_url(url, socket_timeout=5, socket_connect_timeout=CONNECT_TIMEOUT_S) as client:
        for _ in range(MAX_ROUNDS):
            cursor, keys = client.scan(cursor, match=f"{prefix}*", count=1000, _type="list")
            for key in set(keys):
                name = key.decode(errors="replace").removeprefix(prefix).partition(PRIORITY)[0]
                lengths[name] = lengths.get(name, 0) + int(client.llen(key))
            if cursor == 0:
                break
    return lengths
