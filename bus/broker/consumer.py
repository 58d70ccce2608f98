"""A Celery consumer that survives malformed messages: it counts and drops them, and never logs their bodies.

kombu and Celery raise most errors about a malformed message in the worker's event loop. The worker then ends, requeues
the message, and the next worker ends too. Celery finds this class by the setting `worker_consumer`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty
from typing import Any

import orjson
from celery.worker.consumer import Consumer
from kombu import Connection
from kombu.message import Message

from bus.broker.envelope import command_of, rewrite_item
from bus.messages.message import MessageInvalid
from config.tracing import trace_headers_in

log = logging.getLogger(__name__)
RECONNECT_MOST_S = 5.0
"""Most seconds between two attempts to reach an unreachable broker; kombu's default is 30."""
SETTLED_AGAIN_S = 1.0
"""Seconds after which a message is acknowledged once more, where there was no memory for it."""
_FOR_RETURN = ("body_encoding", "delivery_info", "delivery_tag")
"""What kombu needs of a message's properties to return it to its queue."""
LOGGED_ONE_BY_ONE = 10
"""Dropped messages that are logged one by one; afterwards every hundredth is."""


class FilteringConsumer(Consumer):  # type: ignore[misc]  # celery has no types
    """Passes on Callboard's commands, rewritten without any other field, and drops all other messages."""

    dropped = 0

    def create_task_handler(self, *args: Any, **options: Any) -> Callable[[Message], None]:
        """Return the function called with each message; it raises only for a lost connection."""
        handle = super().create_task_handler(*args, **options)
        self._sift_what_redis_pops()
        lost = self._lost

        def on_message(message: Message) -> None:
            try:
                sanitize(message)
                handle(message)
            except lost:
                raise
            except Exception as error:  # an error of Celery's code for one message must not end the worker
                self._drop(error, message)

        return on_message

    @property
    def _lost(self) -> tuple[type[BaseException], ...]:
        """The errors of a lost connection, after which Celery connects again."""
        return tuple(kind for kind in self.connection_errors if kind is not KeyError)  # kombu counts it among them

    def call_soon_ack(self, p: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Acknowledge or reject a message; an error other than a lost connection does not end the worker."""
        return super().call_soon_ack(partial(self._settle, partial(p, *args, **options)))

    def _settle(self, settle: Callable[..., Any], *errors: Any) -> None:
        try:
            settle(*errors)
        except self._lost:
            raise
        except Exception as error:  # Celery's loop would end the worker, with its runs
            log.warning("a message could not be acknowledged: %s", type(error).__name__)
            if isinstance(error, MemoryError) and self.hub:  # otherwise it counts as read and not yet done
                self.hub.call_later(SETTLED_AGAIN_S, partial(self._settle, settle, *errors))

    def ensure_connected(self, conn: Connection) -> Any:
        """Return the connection once the broker answers, however long that takes."""
        conn.ensure_connection = partial(conn.ensure_connection, interval_max=RECONNECT_MOST_S)
        return super().ensure_connected(conn)

    def stop(self) -> None:
        """Consume no more, and return to its queue what Redis hands over all the same.

        Redis gives the next message to a worker that has asked for one, up to a second later. Kombu reads that answer
        when the connection is closed, which is after the pool's last task.
        """
        super().stop()
        channel: Any = self.task_consumer.channel if self.task_consumer is not None else None
        if getattr(channel, "_in_poll", None):
            with suppress(Empty, *self.connection_errors):
                channel._brpop_read()

    def on_decode_error(self, message: Message, exc: Exception) -> None:
        self._drop(exc, message)

    def on_unknown_message(self, body: object, message: Message) -> None:
        self._drop(MessageInvalid("a message has no headers; it was dropped."), message)

    def on_unknown_task(self, body: object, message: Message, exc: Exception) -> None:
        self._drop(MessageInvalid("a message names no task of this worker; it was dropped."), message)

    def on_invalid_task(self, body: object, message: Message, exc: Exception) -> None:
        self._drop(exc, message)

    def _sift_what_redis_pops(self) -> None:
        """Check items before kombu decodes them, which would raise for malformed ones."""
        channel = self.task_consumer.channel
        if not hasattr(channel, "_brpop_read"):
            return  # another broker, whose protocol delimits messages
        parse = channel.client.parse_response

        def parse_response(connection: Any, command_name: str, **options: Any) -> Any:
            answer = parse(connection, command_name, **options)
            if command_name != "BRPOP" or not answer:
                return answer
            try:
                return answer[0], rewrite_item(answer[1], answer[0].decode().partition(channel.sep)[0])
            except MessageInvalid as error:
                self._drop(error)
                return None  # as if the queue had been empty

        channel.client.parse_response = parse_response

    def _drop(self, error: Exception, message: Message | None = None) -> None:
        self.dropped += 1
        if self.dropped <= LOGGED_ONE_BY_ONE or self.dropped % 100 == 0:
            is_invalid_message = isinstance(error, MessageInvalid)  # the text of another error may quote the body
            reason = str(error) if is_invalid_message else f"{type(error).__name__} in Celery; the message was dropped."
            log.warning("%s dropped=%s", reason, self.dropped)
        if message is not None and not message.acknowledged:
            message.reject_log_error(log, self.connection_errors)


def sanitize(message: Message) -> None:
    """Rewrite the message in place so that it has one of Callboard's commands, its trace, and nothing else.

    Raises:
        MessageInvalid: it has no such command.
    """
    headers = message.headers if isinstance(message.headers, dict) else {}
    task_id = headers.get("id")
    if not isinstance(task_id, str) or len(task_id) > 128:
        raise MessageInvalid("a message has no id; it was dropped.")
    command = command_of(headers.get("task"), message.content_type, message.body)
    ids = {"task": command.name, "id": task_id, "root_id": task_id}
    trace = trace_headers_in(headers)
    message.headers = {"lang": "py", "retries": 0, "ignore_result": True, **ids, **trace}
    properties = {name: message.properties[name] for name in _FOR_RETURN if name in message.properties}
    message.properties = {"correlation_id": task_id, **properties}
    message.content_encoding = "utf-8"
    message.body = orjson.dumps([[command.to_wire()], {}, {}])  # without callbacks
