"""Celery's consumer as we have it: how it comes back to its broker."""

from __future__ import annotations

import pytest
from celery import Celery
from kombu import Connection

from bus.consumer import RECONNECT_MOST_S, SiftingConsumer

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
    consumer = SiftingConsumer.__new__(SiftingConsumer)
    consumer.app = Celery(set_as_current=False, broker_connection_retry_on_startup=True)
    consumer.first_connection_attempt, consumer.broker_connection_retry_attempt = True, 0

    with pytest.raises(_Enough):
        consumer.ensure_connected(Connection("redis+socket:///nowhere/redis.sock"))

    attempts = consumer.broker_connection_retry_attempt
    assert sum(pauses_s) / attempts <= RECONNECT_MOST_S
