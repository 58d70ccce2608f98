"""Two deployments on one broker that has no key prefix: each wake-up reaches its own deployment only."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
from kombu import Connection

from bus.broker.celery_config import celery_config, queue_of
from bus.celery_app import Publisher
from bus.messages.run_agent import RunAgentMessage
from config.settings import Settings
from tests.conftest import need
from web.doctor.queues import waiting

MESSAGE = RunAgentMessage(run_id="run_1", agent_id="assistant", thread_id="thr_1")
RABBITMQ = os.environ.get("RABBITMQ_URL", "amqp://guest:guest@127.0.0.1:5672//")
"""Where a RabbitMQ may be tried; each test has a deployment, and so queues, of its own."""


@pytest.fixture
def rabbitmq() -> Iterator[Connection]:
    """A connection to the RabbitMQ of this machine; where none runs, the test is skipped, and fails in CI."""
    with Connection(RABBITMQ, connect_timeout=2) as connection:
        try:
            connection.ensure_connection(max_retries=1, timeout=2)
        except Exception as error:
            need(None, f"a RabbitMQ at {RABBITMQ.rpartition('@')[2]} ({type(error).__name__})")
        yield connection


def on_broker(settings: Settings, url: str, deployment: str) -> Settings:
    return settings.model_copy(update={"broker_url": url, "deployment": deployment})


@pytest.mark.parametrize("url", ["amqp://rabbit//", "sqs://", "memory://localhost/"])
def test_each_deployment_has_its_own_queue_on_every_broker(settings: Settings, url: str) -> None:
    ours, theirs = (celery_config(on_broker(settings, url, name)) for name in ("ours", "theirs"))

    for setting in ("task_default_queue", "task_default_exchange", "task_default_routing_key"):
        assert (ours[setting], theirs[setting]) == ("callboard:ours:runs", "callboard:theirs:runs")
    (queue,) = ours["task_queues"]
    assert {queue.name, queue.exchange.name, queue.routing_key} == {"callboard:ours:runs"}


def test_on_redis_the_connection_has_the_prefix_and_the_queue_none(redis_settings: Settings) -> None:
    config = celery_config(redis_settings)

    prefix = config["broker_transport_options"]["global_keyprefix"]
    assert prefix + config["task_default_queue"] == f"callboard:{redis_settings.deployment}:runs"


@pytest.mark.parity  # Celery's configuration asks whether an `up` of this checkout has a Redis
def test_in_memory_a_wake_up_waits_in_the_queue_of_its_deployment(settings: Settings, deployment: str) -> None:
    ours, theirs = (on_broker(settings, "memory://localhost/", f"{deployment}.{name}") for name in ("ours", "theirs"))
    publish(ours, 1)
    publish(theirs, 2)

    with Connection("memory://localhost/") as connection:
        counts = [waits(connection, each) for each in (ours, theirs)]

    assert counts == [1, 2]


@pytest.mark.parity  # it connects to a real RabbitMQ
def test_on_rabbitmq_two_deployments_do_not_get_each_others_messages(
    settings: Settings, deployment: str, rabbitmq: Connection
) -> None:
    ours, theirs = (on_broker(settings, RABBITMQ, f"{deployment}.{name}") for name in ("ours", "theirs"))
    try:
        publish(ours, 1)
        publish(theirs, 2)

        assert [arrive(rabbitmq, each, count) for each, count in ((ours, 1), (theirs, 2))] == [1, 2]
        assert waiting(ours) == {"runs": 1}, "what the doctor counts"
    finally:
        for each in (ours, theirs):
            queue_of(each, each.queue)(rabbitmq.default_channel).delete()
            queue_of(each, each.queue).exchange(rabbitmq.default_channel).delete()


def publish(settings: Settings, times: int) -> None:
    """Publish wake-ups as the relay does."""
    publisher = Publisher(settings)
    for _ in range(times):
        publisher(MESSAGE)
    publisher.close()


def arrive(connection: Connection, settings: Settings, count: int) -> int:
    """Return how many messages wait, once there are ``count`` or ten seconds went by: the broker takes them later."""
    until = time.monotonic() + 10
    while (message_count := waits(connection, settings)) < count and time.monotonic() < until:
        time.sleep(0.02)
    return message_count


def waits(connection: Connection, settings: Settings) -> int:
    """Return how many messages wait in the deployment's queue."""
    return int(
        connection.default_channel.queue_declare(queue_of(settings, settings.queue).name, passive=True).message_count
    )
