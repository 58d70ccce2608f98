"""The Celery application: `celery -A bus.celery_app worker` starts a worker of the fleet.

Importing it connects to nothing; the configuration is read when Celery first needs it.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Any, TypeVar

from celery import Celery
from kombu import Connection

from bus.broker.celery_config import celery_config, name_prefix, queue_of
from bus.broker.envelope import RedisProducer, plain_redis
from bus.errors import POOL_REFUSED, BrokerMissing
from bus.keys import Keys
from bus.messages.message import BusMessage, MessageInvalid
from bus.queues import served_queues
from bus.redis_wire import with_running_redis
from config.errors import SettingInvalid
from config.settings import Settings, settings
from config.tracing import traced

log = logging.getLogger(__name__)
M = TypeVar("M", bound=BusMessage)

app = Celery("callboard", set_as_current=False)


def _configuration() -> dict[str, Any]:
    return celery_config(with_running_redis(settings()))


app.add_defaults(_configuration)  # called when Celery first looks, not now


def handles(kind: type[M]) -> Callable[[Callable[[M], None]], Any]:
    """Make a function the handler of a message, and return its task.

    The function is called on a worker's thread. A message that is invalid is logged and dropped.
    """

    def register(handle: Callable[[M], None]) -> Any:
        @app.task(name=kind.name, ignore_result=True, bind=True)  # type: ignore[untyped-decorator]  # celery has no types
        def receive(task: Any, wire: object = None, *_more: object, **_extra: object) -> None:
            try:
                message = kind.from_wire(wire).with_headers(task.request.headers or {})
            except MessageInvalid as error:
                log.warning("dropped a message: %s", error)
                return
            with traced(message.trace_id, message.correlation_id, message.run_id):
                handle(message)

        return receive

    return register


class Publisher:
    """Publishes each message to its queue at the configured broker, over a connection of its own.

    To be used on the relay's thread. It raises the errors of redis-py or kombu while the broker is unreachable, and
    reconnects at the next message.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._producer: RedisProducer | CeleryProducer | None = None

    def __call__(self, message: BusMessage) -> None:
        broker = require_broker_setting(self._settings)
        try:
            if self._producer is None:
                url = plain_redis(broker)
                prefix = Keys(self._settings.deployment).prefix
                self._producer = RedisProducer(url, prefix) if url is not None else CeleryProducer(self._settings)
            self._producer.publish(message, message.queue or self._settings.queue)
        except Exception:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection; the next message opens another."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()


class CeleryProducer:
    """Publishes messages as Celery does, to any broker; for one thread."""

    def __init__(self, settings: Settings) -> None:
        configuration = celery_config(settings)
        self._queue = lru_cache(partial(queue_of, settings))
        self._connection = Connection(
            configuration["broker_url"], transport_options=configuration["broker_transport_options"], connect_timeout=2
        )
        self._producer = app.amqp.Producer(self._connection, auto_declare=False)

    def publish(self, message: BusMessage, queue: str) -> None:
        """Return once the broker has the message."""
        app.send_task(
            message.name,
            args=(message.to_wire(),),
            producer=self._producer,
            queue=self._queue(queue),
            headers=message.to_headers(),
            ignore_result=True,
        )

    def close(self) -> None:
        """Close the connection."""
        self._connection.release()


def serve_queues(worker_app: Celery, names: Iterable[str], excluded: Iterable[str] = ()) -> None:
    """Make this worker process consume these queues (by default those of its settings) except the excluded ones.

    Celery reads the names from ``task_queues`` before it reads its command's options.

    Raises:
        SettingInvalid: a name is not valid for a queue, or every queue is excluded.
    """
    prefix = name_prefix(settings())
    listed = [name.removeprefix(prefix) for name in names] or served_queues(settings()).names
    left_out = {name.removeprefix(prefix) for name in excluded}
    served = [name for name in listed if name not in left_out]
    if not served:
        raise SettingInvalid("every queue of this worker is excluded; name another with -Q, or leave -X out.")
    os.environ["CALLBOARD_QUEUES"] = ",".join(served)
    settings.cache_clear()
    for name in listed:
        worker_app.amqp.queues.add(queue_of(settings(), name))


def require_broker_setting(settings: Settings) -> str:
    """Return the configured broker's URL.

    Raises:
        BrokerMissing: none is; wake-ups stay in the outbox until a process with a broker publishes them.
    """
    if settings.broker is None:
        raise BrokerMissing(
            "no Redis and no other broker is configured: set CALLBOARD_REDIS_URL, or let `./callboard up` start one."
        )
    return settings.broker


def refuse_greenlets(pool: str = "") -> None:
    """Check that the pool is not one of gevent's or eventlet's, and that this process is not patched for them.

    Raises:
        POOL_REFUSED: it is; the agents' event loop cannot run on patched threads.
    """
    gevent = sys.modules.get("gevent.monkey")
    eventlet = sys.modules.get("eventlet.patcher")
    patched = gevent is not None and gevent.is_module_patched("threading")
    patched = patched or (eventlet is not None and eventlet.is_monkey_patched("thread"))
    if patched or any(name in pool for name in ("gevent", "eventlet")):
        raise POOL_REFUSED(
            "Callboard does not run on the gevent and eventlet pools: agents share one event loop in a real thread. "
            "Start the worker with `--pool threads` (the default), prefork or solo."
        )
