"""A Celery application of which the test is the worker: it takes messages, and records starts, results and failures."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
from celery import Celery

from config.redis.url import broker_form

SCHEMA = {
    "type": "object",
    "properties": {"number": {"type": "string"}},
    "required": ["number"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class SentTask:
    """A message of the queue."""

    id: str
    name: str
    arguments: dict[str, Any]
    headers: dict[str, Any]


class ScriptedShop:
    """The application on a Redis, with a queue that no other test has."""

    def __init__(self, url: str, queue: str, key_prefix: str = "") -> None:
        self.url, self.queue = url, queue
        self.app = Celery("shop", broker=broker_form(url), backend=broker_form(url), set_as_current=False)
        self.app.conf.result_backend_transport_options = {"global_keyprefix": key_prefix} if key_prefix else {}
        self.redis = redis.Redis.from_url(url)

    def describe(self, folder: Path, *, tracks_starts: bool = False, **fields: Any) -> None:
        """Write the application's file, with one task."""
        folder.mkdir(parents=True, exist_ok=True)
        task = {"queue": self.queue, "schema": SCHEMA, "description": "Pay money back.", **fields}
        facts = {"broker": self.url, "tracks_starts": tracks_starts, "tasks": {"shop.refund": task}}
        (folder / "shop.yaml").write_text(json.dumps(facts))

    def take(self, timeout_s: int = 10) -> SentTask:
        """Return the next message of the queue."""
        entry: Any = self.redis.brpop([self.queue], timeout=timeout_s)
        assert entry is not None, "no task was sent"
        message = json.loads(entry[1])
        _, arguments, _ = json.loads(base64.b64decode(message["body"]))
        headers = message["headers"]
        return SentTask(headers["id"], headers["task"], arguments, headers)

    def waiting(self) -> int:
        """Return how many messages are in the queue."""
        return int(self.redis.llen(self.queue))

    def begin(self, task: SentTask) -> None:
        """Record that a worker has begun it."""
        self.app.backend.store_result(task.id, {"pid": 1}, "STARTED")

    def forget(self, task: SentTask) -> None:
        """Lose its entry, as a Redis that starts again without what it held."""
        self.redis.delete(self.app.backend.get_key_for_task(task.id))

    def retry(self, task: SentTask) -> None:
        """Record that the application tries it again later."""
        self.app.backend.mark_as_retry(task.id, RuntimeError("later"), traceback="no")

    def succeed(self, task: SentTask, result: Any) -> None:
        """Record its result."""
        self.app.backend.mark_as_done(task.id, result)

    def fail(self, task: SentTask, error: Exception) -> None:
        """Record its failure."""
        self.app.backend.mark_as_failure(task.id, error, traceback='File "/srv/shop/secret.py", line 1')

    def revoke(self, task: SentTask, reason: str) -> None:
        """Record that a worker dropped it."""
        self.app.backend.mark_as_revoked(task.id, reason)

    def listen(self) -> redis.client.PubSub:
        """Return a subscription to what is broadcast to workers."""
        pubsub = self.redis.pubsub(ignore_subscribe_messages=True)
        pubsub.psubscribe("*celery.pidbox*")
        pubsub.get_message(timeout=2)
        return pubsub

    def revoked(self, pubsub: redis.client.PubSub, timeout_s: float = 15.0) -> dict[str, Any]:
        """Return what the next broadcast revokes."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            message = pubsub.get_message(timeout=0.5)
            if message is not None and message["type"] == "pmessage":
                body = json.loads(base64.b64decode(json.loads(message["data"])["body"]))
                if body["method"] == "revoke":
                    arguments: dict[str, Any] = body["arguments"]
                    return arguments
        raise AssertionError("nothing was revoked")

    def close(self) -> None:
        """Close its connections."""
        self.app.close()
        self.redis.close()
