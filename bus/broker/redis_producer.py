"""Publishes wake-ups to a Redis broker with one command each.

Celery's own publishing of a message takes 0.5 ms of CPU and more on a busy machine, on the way to each first token.
"""

from __future__ import annotations

import uuid
from typing import Any
from urllib.parse import parse_qs, urlsplit

from celery.utils.nodenames import anon_nodename

from bus.broker.envelope import item_of
from bus.messages.message import BusMessage
from config.redis.url import redis_form


class RedisProducer:
    """Adds messages to the Redis lists that Celery's workers read; for one thread."""

    def __init__(self, url: str, prefix: str) -> None:
        """Connect at the first message; ``prefix`` precedes the queue's name in its key."""
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        self._prefix = prefix
        self._origin = anon_nodename()
        options: dict[str, Any] = {} if url.startswith("unix") else {"socket_keepalive": True}
        options["retry"] = Retry(NoBackoff(), 1)  # a message that is published twice does no harm
        self._client: Any = redis.Redis.from_url(url, socket_timeout=5, socket_connect_timeout=2, **options)

    def publish(self, message: BusMessage, queue: str) -> None:
        """Return once Redis has the message."""
        self._client.lpush(f"{self._prefix}{queue}", item_of(message, str(uuid.uuid4()), queue, self._origin))

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def plain_redis(broker: str) -> str | None:
    """Return a broker's URL in redis-py's form; None where it has options, or is not one Redis server."""
    url = redis_form(broker)
    return url if url is not None and set(parse_qs(urlsplit(url).query)) <= {"db"} else None
