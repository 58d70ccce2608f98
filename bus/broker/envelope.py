"""Celery's envelope of a message: encodes it, and decodes it as untrusted input.

Every client of the broker can write one.

Only what Callboard's publisher sends is accepted: no ETA, no time limit, no callbacks, no other task's name, no other
serializer. The rest, and the headers of a trace where they are valid, is encoded again in plain JSON.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import orjson

from bus.messages.message import BusMessage, MessageInvalid
from bus.messages.registry import messages
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
