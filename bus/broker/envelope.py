"""Celery's envelope of a message: encodes it, and decodes it as untrusted input.

Every client of the broker can write one.

Only what Callboard's publisher sends is accepted: no ETA, no time limit, no callbacks, no other task's name, no other
serializer. The rest, and the headers of a trace where they are valid, is encoded again in plain JSON.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson
from celery.utils.nodenames import anon_nodename

from bus.messages.message import BusMessage, MessageInvalid
from bus.messages.registry import messages
from config.redis.url import redis_form
from config.tracing import trace_headers_in

MAX_BYTES = 64 * 1024
"""Most bytes of an item; a wake-up has under 2 KB, and about 4 KB with its envelope."""
_TEXTS = ("body", "content-type", "content-encoding")
_HEADERS: Mapping[str, Any] = {
    "lang": "py",
    "shadow": None,
    "eta": None,
    "expires": None,
    "group": None,
    "group_index": None,
    "retries": 0,
    "timelimit": [None, None],
    "parent_id": None,
    "kwargsrepr": "{}",
    "ignore_result": True,
    "replaced_task_nesting": 0,
    "stamped_headers": None,
    "stamps": {},
}
_PROPERTIES: Mapping[str, Any] = {"reply_to": "", "delivery_mode": 2, "priority": 0, "body_encoding": "base64"}
_NO_CALLBACKS = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}


def item_of(command: BusMessage, task_id: str, queue: str, origin: str) -> bytes:
    """Return the item of a queue's Redis list that Celery would publish for the command."""
    wire = command.to_wire()
    own = {"task": command.name, "id": task_id, "root_id": task_id, "argsrepr": repr((wire,)), "origin": origin}
    delivery = {"delivery_info": {"exchange": "", "routing_key": queue}, "delivery_tag": task_id}
    item = {
        "body": base64.b64encode(orjson.dumps([[wire], {}, _NO_CALLBACKS])).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {**_HEADERS, **own, **command.to_headers()},
        "properties": {**_PROPERTIES, **delivery, "correlation_id": task_id},
    }
    return orjson.dumps(item)


def rewrite_item(item: bytes | str, queue: str) -> bytes:
    """Return an item of the queue's Redis list as kombu can read it, without the fields that Callboard does not use.

    Kombu returns a message that it cannot hand over to the queue that the item names: ``queue``, which it came from.

    Raises:
        MessageInvalid: it would make kombu raise in Celery's event loop.
    """
    if len(item) > MAX_BYTES:
        raise MessageInvalid(f"an item of the queue has {len(item):,} bytes; it was dropped.")
    try:
        envelope = orjson.loads(item)
        headers, properties = envelope["headers"], envelope["properties"]
        rewritten: dict[str, Any] = {name: _text(envelope[name]) for name in _TEXTS}
        own = {name: _text(headers[name]) for name in ("task", "id")}
        rewritten["headers"] = {**own, **trace_headers_in(headers)}
        rewritten["properties"] = {
            "delivery_tag": _text(properties["delivery_tag"]),
            "delivery_info": {"exchange": "", "routing_key": queue},
            "body_encoding": "base64",
        }
        base64.b64decode(rewritten["body"], validate=True)
    except (KeyError, TypeError, ValueError) as error:  # the JSON's and base64's errors are ValueErrors
        raise MessageInvalid("an item of the queue is no message of Celery's; it was dropped.") from error
    return orjson.dumps(rewritten)


def command_of(task: object, content_type: object, body: object) -> BusMessage:
    """Return the command in a message's body.

    Raises:
        MessageInvalid: it is not a command of Callboard; nothing is unpickled or called to find that out.
    """
    kind = messages().get(task) if isinstance(task, str) else None
    if kind is None:  # Celery registers more tasks of its own, which Callboard never sends
        raise MessageInvalid("a message names no task of ours; it was dropped.")
    if content_type != "application/json" or not isinstance(body, bytes | str) or len(body) > MAX_BYTES:
        raise MessageInvalid("a message's body is not JSON, or too long; it was dropped.")
    try:
        (wire,), _, _ = orjson.loads(body)
    except (TypeError, ValueError) as error:
        raise MessageInvalid("a message's body cannot be read; it was dropped.") from error
    return kind.from_wire(wire)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


# --- a Redis broker


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
