"""What is published to a Redis broker directly is what Celery would publish."""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest
import redis

from bus.broker.redis_producer import RedisProducer, plain_redis
from bus.celery_app import CeleryProducer, Publisher
from bus.messages.run_agent import RunAgentMessage
from config.settings import Settings
from tests.backends import RedisServer

MESSAGE = RunAgentMessage(run_id="run_1", agent_id="assistant", thread_id="thr_1", detached=True, queue="gpu")
UNIQUE = {"id", "root_id", "correlation_id", "delivery_tag", "reply_to"}
"""Fields with an id of the one message."""


def without_ids(item: bytes | str) -> Any:
    """Return an item of the queue with its body decoded, and without the values of its ids."""
    message = orjson.loads(item)
    for part in ("headers", "properties"):
        message[part] = {name: "an id" if name in UNIQUE else value for name, value in message[part].items()}
    return message | {"body": orjson.loads(base64.b64decode(message["body"]))}


def test_an_item_is_the_one_that_celery_publishes(redis_settings: Settings, redis_client: redis.Redis):
    prefix = f"callboard:{redis_settings.deployment}:"
    direct = RedisProducer(str(redis_settings.redis_url), prefix)
    through_celery = CeleryProducer(redis_settings)

    direct.publish(MESSAGE, "gpu")
    through_celery.publish(MESSAGE, "gpu")
    direct.close()
    through_celery.close()

    ours, theirs = redis_client.lrange(f"{prefix}gpu", 0, -1)
    assert without_ids(ours) == without_ids(theirs)


@pytest.mark.parametrize(
    ("broker", "url"),
    [
        ("redis://h:6379/1", "redis://h:6379/1"),
        ("rediss://u:p@h/0", "rediss://u:p@h/0"),
        ("unix:///run/r.sock?db=2", "unix:///run/r.sock?db=2"),
        ("redis+socket:///run/r.sock?virtual_host=2", "unix:///run/r.sock?db=2"),
        ("rediss://h/0?ssl_cert_reqs=CERT_REQUIRED", None),
        ("redis://a/0;redis://b/0", None),
        ("sentinel://h:26379", None),
        ("amqp://rabbit", None),
    ],
)
def test_a_broker_with_options_or_of_another_kind_is_left_to_celery(broker: str, url: str | None):
    assert plain_redis(broker) == url


def test_a_connection_that_redis_closed_costs_no_wake_up(own_redis: RedisServer, settings: Settings):
    publish = Publisher(settings.model_copy(update={"redis_url": own_redis.url}))
    with redis.Redis.from_url(own_redis.url) as client:
        publish(MESSAGE)
        client.client_kill_filter(_type="normal", skipme=True)

        publish(MESSAGE)
        publish.close()

        assert client.llen(f"callboard:{settings.deployment}:gpu") == 2
