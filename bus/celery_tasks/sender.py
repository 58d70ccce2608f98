"""Sends tasks to an application's broker, and revokes them; nothing of the application is imported."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from celery import Celery
from kombu import Connection

from config.errors import ToolCutOff, ToolFailed
from config.redaction import redact
from config.redis.url import broker_form
from config.tracing import current_headers

log = logging.getLogger(__name__)

SEND_S = 15.0
"""Seconds that a task may wait to be sent, behind others and for the broker."""
CONNECT_S = 2.0
IDLE_S = 5.0
"""Seconds after which a connection that was not used is replaced: the broker may have closed it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Routing:
    """Where a task's messages go."""

    task: str
    queue: str
    exchange: str = ""
    routing_key: str = ""
    priority: int | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The options of ``send_task``. No queue is declared: its arguments are the application's to choose."""
        key = self.routing_key or self.queue
        options: dict[str, Any] = {"exchange": self.exchange, "routing_key": key} if self.exchange else {}
        if not self.exchange:  # through the default exchange, which every queue is bound to by its name
            options = {"exchange": "", "routing_key": key, "exchange_type": "default"}
        return options if self.priority is None else options | {"priority": self.priority}


class TaskSender:
    """One thread with one connection to a broker; safe to be used from the loop."""

    def __init__(self, broker: str, key_prefix: str) -> None:
        is_redis = broker.startswith(("redis", "rediss", "unix"))
        options: dict[str, Any] = {"socket_timeout": 5, "socket_connect_timeout": CONNECT_S} if is_redis else {}
        if is_redis and key_prefix:
            options["global_keyprefix"] = key_prefix
        if broker.startswith(("amqp", "pyamqp")):
            options = {"confirm_publish": True, "read_timeout": 5, "write_timeout": 5}
        self._is_amqp = broker.startswith(("amqp", "pyamqp"))
        self._app = Celery("callboard-tasks", broker=broker_form(broker), backend="disabled://", set_as_current=False)
        self._app.conf.update(
            task_serializer="json",
            accept_content=["json"],
            broker_transport_options=options,
            broker_connection_timeout=CONNECT_S,
            task_publish_retry=False,
        )
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="callboard-tasks")
        self._connection: Connection | None = None
        self._producer: Any = None
        self._used_s = 0.0

    async def send(self, routing: Routing, task_id: str, arguments: Mapping[str, Any], expires_ms: int) -> None:
        """Return when the broker has the message, whose headers continue the current trace.

        Raises:
            ToolFailed: it was not sent.
            ToolCutOff: it may have been sent.
        """
        sending = self._thread.submit(self._send, routing, task_id, dict(arguments), expires_ms, current_headers())
        await _done(sending, f"the task {routing.task} was not sent: its broker answers too slowly.")

    async def revoke(self, task_id: str, *, terminate: bool) -> None:
        """Ask the application's workers to drop a task, and to end one that has begun where ``terminate``.

        Raises:
            ToolFailed, ToolCutOff: the broker does not answer.
        """
        await _done(self._thread.submit(self._revoke, task_id, terminate), "the broker answers too slowly.")

    def close(self) -> None:
        """Close the connection and end the thread."""
        self._thread.submit(self._drop)
        self._thread.shutdown(wait=False)

    # --- on the thread

    def _send(
        self, routing: Routing, task_id: str, arguments: dict[str, Any], expires_ms: int, headers: dict[str, str]
    ) -> None:
        producer = self._opened(f"the task {routing.task} was not sent")
        expires = datetime.fromtimestamp(expires_ms / 1000, UTC)
        more = {"mandatory": True} if self._is_amqp else {}  # refused where no queue takes it
        try:
            self._app.send_task(
                routing.task,
                kwargs=arguments,
                task_id=task_id,
                producer=producer,
                expires=expires,
                headers=headers,
                ignore_result=False,
                retry=False,
                **routing.options,
                **more,
            )
        except Exception as error:  # each transport has its own errors
            self._drop()
            if "NO_ROUTE" in str(error):
                where = f"exchange '{routing.exchange}'" if routing.exchange else f"queue '{routing.queue}'"
                raise ToolFailed(f"the task {routing.task} was not sent: the broker has no {where}.") from error
            raise ToolCutOff(f"the task {routing.task} may not have been sent: {_reason(error)}") from error
        self._used_s = time.monotonic()

    def _opened(self, what: str) -> Any:
        """Return the producer, on a connection that is open.

        Raises:
            ToolFailed: the broker does not answer; nothing was sent.
        """
        if self._connection is not None and time.monotonic() - self._used_s < IDLE_S:
            return self._producer
        self._drop()
        try:
            self._connection = self._app.connection_for_write()
            self._connection.ensure_connection(max_retries=1, interval_start=0, timeout=CONNECT_S)
            self._producer = self._app.amqp.Producer(self._connection, auto_declare=False)
            _ = self._producer.channel  # opens it
        except Exception as error:
            self._drop()
            raise ToolFailed(f"{what}: its broker does not answer ({_reason(error)}).") from error
        return self._producer

    def _revoke(self, task_id: str, terminate: bool) -> None:
        self._opened("the task was not revoked")
        try:
            self._app.control.revoke(task_id, terminate=terminate, connection=self._connection)
        except Exception as error:
            self._drop()
            raise ToolCutOff(f"the task may not have been revoked: {_reason(error)}") from error
        self._used_s = time.monotonic()

    def _drop(self) -> None:
        connection, self._connection, self._producer = self._connection, None, None
        if connection is not None:
            try:
                connection.release()
            except Exception as error:
                log.debug("a connection to a broker could not be closed", extra={"reason": type(error).__name__})


def require_answer(broker: str) -> None:
    """Return if a broker answers.

    Raises:
        ToolFailed: it does not.
    """
    sender = TaskSender(broker, "")
    try:
        sender._opened("nothing can be sent")
    finally:
        sender.close()


async def _done(work: Future[None], otherwise: str) -> None:
    """Wait for the thread; what it has not begun in time is cancelled."""
    try:
        async with asyncio.timeout(SEND_S):
            await asyncio.shield(asyncio.wrap_future(work))
    except TimeoutError as error:
        if work.cancel():
            raise ToolFailed(otherwise) from error
        raise ToolCutOff(otherwise.replace("was not", "may not have been")) from error


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {redact(str(error))[:200]}".rstrip(". :")
