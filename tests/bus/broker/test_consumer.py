"""Celery's consumer as we have it: how it comes back to its broker, and what it leaves there when it ends."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import orjson
import pytest
import redis
from celery import Celery
from kombu import Connection
from kombu.asynchronous.hub import Hub

import bus.broker.consumer
from bus.broker.celery_config import broker_url, queue_of, transport_options
from bus.broker.consumer import RECONNECT_MOST_S, FilteringConsumer, sanitize
from bus.broker.envelope import rewrite_item
from bus.keys import Keys
from config.settings import Settings
from tests.bus import garbage

pytestmark = pytest.mark.parity


class _Enough(Exception):
    """So many attempts tell enough."""


def test_a_broker_that_stays_away_is_tried_every_few_seconds(monkeypatch: pytest.MonkeyPatch):
    pauses_s: list[float] = []

    def no_pause(seconds: float) -> None:
        pauses_s.append(seconds)
        if len(pauses_s) > 100:
            raise _Enough

    monkeypatch.setattr("kombu.utils.functional.sleep", no_pause)
    consumer = FilteringConsumer.__new__(FilteringConsumer)
    consumer.app = Celery(set_as_current=False, broker_connection_retry_on_startup=True)
    consumer.first_connection_attempt, consumer.broker_connection_retry_attempt = True, 0

    with pytest.raises(_Enough):
        consumer.ensure_connected(Connection("redis+socket:///nowhere/redis.sock"))

    attempts = consumer.broker_connection_retry_attempt
    assert sum(pauses_s) / attempts <= RECONNECT_MOST_S


def test_a_message_that_cannot_be_acknowledged_for_lack_of_memory_is_acknowledged_later(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(bus.broker.consumer, "SETTLED_AGAIN_S", 0.0)
    consumer = FilteringConsumer.__new__(FilteringConsumer)
    consumer.connection_errors, consumer.hub = (ConnectionError, KeyError), Hub()
    failures: list[Exception] = [MemoryError(), MemoryError()]
    settled: list[str] = []

    def acknowledge(message: str) -> None:
        if failures:
            raise failures.pop()
        settled.append(message)

    consumer.call_soon_ack(acknowledge, "first")
    while not settled:
        consumer.hub.run_once()
    failures.append(ValueError())
    consumer.call_soon_ack(acknowledge, "second")
    consumer.hub.run_once()
    failures.append(ConnectionError())
    consumer.call_soon_ack(acknowledge, "third")

    with pytest.raises(ConnectionError):
        consumer.hub.run_once()
    assert settled == ["first"]


def test_what_redis_hands_over_to_a_consumer_that_stops_is_in_its_queue_again(
    redis_settings: Settings, redis_client: redis.Redis
):
    url, key = broker_url(redis_settings), f"{Keys(redis_settings.deployment).prefix}{redis_settings.queue}"
    consumer = FilteringConsumer.__new__(FilteringConsumer)
    consumer.connection_errors = ()
    consumer.blueprint = SimpleNamespace(stop=lambda stopped: stopped.task_consumer.cancel())
    with Connection(url, transport_options=transport_options(redis_settings, url)) as connection:
        consumer.task_consumer = connection.Consumer([queue_of(redis_settings, redis_settings.queue)])
        consumer.task_consumer.consume()
        consumer._sift_what_redis_pops()
        connection.transport.cycle._register_BRPOP(consumer.task_consumer.channel)  # as Celery's loop asks for one
        redis_client.lpush(key, garbage.item())

        consumer.stop()

        item: Any = redis_client.rpop(key)
        assert orjson.loads(rewrite_item(item, "runs"))["body"] == orjson.loads(garbage.item())["body"]

        channel = consumer.task_consumer.channel
        message = channel.Message(orjson.loads(rewrite_item(item, redis_settings.queue)), channel=channel)
        sanitize(message)
        channel._restore(message)  # as kombu does with what no task has begun when the worker ends

        again: Any = redis_client.rpop(key)
        sanitize(channel.Message(orjson.loads(rewrite_item(again, redis_settings.queue)), channel=channel))
