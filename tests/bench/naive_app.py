"""(b) The way most begin: a Celery task that reads LiteLLM's synchronous stream, a PUBLISH for each chunk, and in
Flask a thread and a pub/sub connection for each viewer.

Both processes read the Redis URL and the model's address from the environment.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import orjson
from celery import Celery

from config.redis.url import broker_form

if TYPE_CHECKING:
    from flask import Flask, Response

REDIS_URL = "NAIVE_REDIS_URL"
MODEL_URL = "NAIVE_MODEL_URL"

app = Celery("naive", set_as_current=False)
app.add_defaults(lambda: {"broker_url": broker_form(os.environ[REDIS_URL]), "task_ignore_result": True})
_clients: dict[str, Any] = {}


def redis_client() -> Any:
    """Return this process's client, made once."""
    if "redis" not in _clients:
        import redis

        _clients["redis"] = redis.Redis.from_url(os.environ[REDIS_URL])
    return _clients["redis"]


@app.task(name="naive.answer")
def answer(channel: str, model: str, sentence: str) -> None:
    """Publish each piece of the model's answer, and that it is over."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    client = redis_client()
    stream: Any = litellm.completion(
        model=model,
        messages=[{"role": "user", "content": sentence}],
        stream=True,
        api_key="none",
        api_base=os.environ[MODEL_URL],
    )
    for chunk in stream:
        content = chunk.choices[0].delta.content
        if content:
            client.publish(channel, orjson.dumps({"content": content}))
    client.publish(channel, b"[DONE]")


def create_app() -> Flask:
    """Return the Flask application: POST /stream with ``model`` and ``input``."""
    from flask import Flask, Response, request

    flask = Flask(__name__)

    @flask.post("/stream")
    def stream() -> Response:
        body = request.get_json()
        return Response(_frames(body["model"], body["input"]), mimetype="text/event-stream")

    return flask


def _frames(model: str, sentence: str) -> Iterator[bytes]:
    channel = f"naive:{uuid.uuid4()}"
    with redis_client().pubsub(ignore_subscribe_messages=True) as subscription:
        subscription.subscribe(channel)
        subscription.get_message(timeout=5)  # subscribed before asking: else first tokens are lost
        answer.delay(channel, model, sentence)
        while True:
            message = subscription.get_message(timeout=30)
            if message is None:
                continue
            yield b"data: " + message["data"] + b"\n\n"
            if message["data"] == b"[DONE]":
                return
