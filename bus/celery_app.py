"""The Celery application: `celery -A bus.celery_app worker` starts a worker of the fleet.

Importing it connects to nothing; the configuration is read when Celery first needs it.
"""

from __future__ import annotations

import sys
from typing import Any

from celery import Celery
from kombu import Connection, Producer

from bus.celery_config import celery_config, queue_of
from bus.messages import RunAgentMessage
from config.errors import BrokerMissing, PoolRefused
from config.settings import Settings, settings

app = Celery("callboard", set_as_current=False)


def _configuration() -> dict[str, Any]:
    return celery_config(settings())


app.add_defaults(_configuration)  # called when Celery first looks, not now


class Publisher:
    """Puts wake-ups on the queue of one settings' broker, over a connection of its own.

    Belongs to the relay's thread. It raises what kombu raises when the broker is away, and connects anew then.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._queue = queue_of(settings)
        self._producer: Producer | None = None

    def __call__(self, message: RunAgentMessage) -> None:
        require_broker_setting(self._settings)
        try:
            if self._producer is None:
                self._producer = self._connect()
            app.send_task(
                RunAgentMessage.name, args=(message.to_wire(),), producer=self._producer, queue=self._queue,
                ignore_result=True,
            )  # fmt: skip
        except Exception:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the connection; the next message makes another."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.connection.release()

    def _connect(self) -> Producer:
        configuration = celery_config(self._settings)
        connection = Connection(
            configuration["broker_url"], transport_options=configuration["broker_transport_options"], connect_timeout=2
        )
        producer: Producer = app.amqp.Producer(connection, auto_declare=False)
        return producer


def require_broker_setting(settings: Settings) -> None:
    """Return if there is a broker to send wake-ups through.

    Raises:
        BrokerMissing: there is none; what is accepted stays in the outbox until somebody has one.
    """
    if settings.broker is None:
        raise BrokerMissing(
            "no Redis and no other broker is configured: set CALLBOARD_REDIS_URL, or let `./callboard up` start one."
        )


def refuse_greenlets() -> None:
    """Return unless this process was patched for gevent or eventlet.

    Raises:
        PoolRefused: it was; the agents' loop cannot run on patched threads.
    """
    gevent = sys.modules.get("gevent.monkey")
    eventlet = sys.modules.get("eventlet.patcher")
    patched = gevent is not None and gevent.is_module_patched("threading")
    patched = patched or (eventlet is not None and eventlet.is_monkey_patched("thread"))
    if patched:
        raise PoolRefused(
            "Callboard does not run on the gevent and eventlet pools: agents share one event loop in a real thread. "
            "Start the worker with `--pool threads` (the default), prefork or solo."
        )
