"""Queues: what waits is consumed by somebody who lives."""

from __future__ import annotations

from collections.abc import Iterator

from kombu import Connection
from sqlalchemy import func, select

from bus.celery_config import MEMORY_BROKER, queue_of
from bus.journal.workers import alive
from bus.keys import Keys
from config.errors import CallboardError
from config.redis_server import CONNECT_TIMEOUT_S, ask, require_broker
from config.redis_url import broker_form, redis_form
from config.settings import Settings
from config.tables import runs
from web.terminal.looks.database import usable_database
from web.terminal.looks.finding import Found, Verdict
from web.terminal.looks.servers import redis_in_use

MAX_ROUNDS = 500
"""Looks of a thousand keys each at a Redis that may be full of somebody else's."""
PRIORITY = "\x06\x16"
"""What kombu puts between a queue's name and a priority."""


def look_at_queues(settings: Settings) -> Found:
    """Yield runs and messages that wait where no living worker consumes."""
    with usable_database(settings) as database:
        if database is None:
            return
        with database.read() as connection:
            consumed = {str(worker["queue"] or settings.queue) for worker in alive(database, connection)}
            queued = connection.execute(select(func.count()).where(runs.c.status == "queued")).scalar_one()
    try:
        messages = waiting(settings)
    except CallboardError:
        messages = {}
        yield "warn", "the broker does not answer, so nobody can say what waits there; start it, or mend its URL"
    yield from consumers(settings, consumed, queued, messages.pop(settings.queue, 0))
    for name, count in sorted(messages.items()):
        if name in consumed:
            continue
        yield (
            "warn",
            f"{many(count, 'message')} in '{name}', which no living worker consumes. Start `./callboard worker` with "
            f"CALLBOARD_QUEUE={name}, or throw them away (`redis-cli del '{Keys(settings.deployment).prefix}{name}'`): "
            "runs are in SQL and are woken anew.",
        )


def consumers(settings: Settings, consumed: set[str], queued: int, messages: int) -> Iterator[tuple[Verdict, str]]:
    """Yield whether somebody consumes the queue that wake-ups are published to."""
    waits = f"{many(queued, 'run')} and {many(messages, 'wake-up')} waiting"
    if settings.queue in consumed:
        yield "ok", f"'{settings.queue}' is consumed; {waits}"
    elif consumed:
        listing = ", ".join(f"'{name}'" for name in sorted(consumed))
        yield (
            "fail",
            f"workers alive consume {listing}, this deployment publishes to '{settings.queue}' ({waits}). Start both "
            f"with one CALLBOARD_QUEUE: restart the workers with CALLBOARD_QUEUE={settings.queue}, or set it to theirs "
            "here.",
        )
    elif queued or messages:
        yield "fail", f"{waits} in '{settings.queue}', and no worker is alive. Start `./callboard worker` (or `up`)."
    else:
        yield "warn", "no worker is alive; nothing waits yet. `./callboard up` or `./callboard worker` starts some."


def many(count: int, noun: str) -> str:
    """Return `1 run`, `2 runs`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def waiting(settings: Settings) -> dict[str, int]:
    """Return how many messages wait, by queue: all of this deployment's in Redis, ours alone in another broker.

    Raises:
        RedisUnreachable: the broker does not answer.
    """
    url = settings.broker_url or redis_in_use(settings)
    if url is None or url.startswith(MEMORY_BROKER):
        return {}
    as_redis = redis_form(url)
    if as_redis is not None:
        ask(as_redis)  # who does not answer is named
        return _lists(as_redis, Keys(settings.deployment).prefix)
    require_broker(url)
    with Connection(broker_form(url), connect_timeout=CONNECT_TIMEOUT_S) as connection:
        try:
            declared = connection.default_channel.queue_declare(queue_of(settings).name, passive=True)
        except connection.channel_errors:  # it was never made: nothing was ever published
            return {}
        return {settings.queue: int(declared.message_count)}


def _lists(url: str, prefix: str) -> dict[str, int]:
    """Return the lengths of the lists under our prefix. Not asked through kombu, which forgets the prefix here."""
    import redis

    found: dict[str, int] = {}
    cursor = 0
    with redis.Redis.from_url(url, socket_timeout=5, socket_connect_timeout=CONNECT_TIMEOUT_S) as client:
        for _ in range(MAX_ROUNDS):
            cursor, keys = client.scan(cursor, match=f"{prefix}*", count=1000, _type="list")
            for key in set(keys):
                name = key.decode(errors="replace").removeprefix(prefix).partition(PRIORITY)[0]
                found[name] = found.get(name, 0) + int(client.llen(key))
            if cursor == 0:
                break
    return found
