"""The transports a message can take to its handler, this process's loop or the broker, and the table of routes."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future, as_completed
from typing import Any, Protocol

from sqlalchemy import Connection

from bus.journal.outbox import Relay, announce
from bus.loop import ProcessLoop
from bus.messages.message import BusMessage

log = logging.getLogger(__name__)

Handle = Callable[[BusMessage], Coroutine[Any, Any, None]]


class Transport(Protocol):
    """Takes a message to its handler."""

    def record(self, connection: Connection, run_id: str) -> int | None:
        """Write, in the commit that accepts the run, what publishes its message if this process dies.

        Returns the outbox row, or None where there is none.
        """

    def send(self, message: BusMessage, outbox_row: int | None) -> None:
        """Send the message of a committed run, without waiting until it is handled; ``record`` wrote ``outbox_row``."""


class InlineTransport:
    """Handles the message on this process's loop at once."""

    def __init__(self, loop: ProcessLoop, keep: Callable[[Connection, str], None]) -> None:
        """``keep`` keeps a queued run from workers for a while, in the caller's transaction."""
        self._loop = loop
        self._keep = keep
        self._going: set[Future[None]] = set()

    def record(self, connection: Connection, run_id: str) -> None:
        """Keep the run from workers, which would take one of a higher priority at once: this process handles it."""
        self._keep(connection, run_id)

    def send(self, message: BusMessage, outbox_row: int | None = None) -> None:
        future = self._loop.submit(find_handler(message)(message))
        self._going.add(future)
        future.add_done_callback(self._ended)

    def _ended(self, future: Future[None]) -> None:
        self._going.discard(future)
        if not future.cancelled() and (error := future.exception()) is not None:
            log.error("a message was not handled: %s: %s", type(error).__name__, error)

    def settle(self, timeout_s: float | None = None) -> None:
        """Wait until everything sent has been handled.

        Raises:
            TimeoutError: it takes longer than ``timeout_s``.
            Exception: what the handler of a message raised.
        """
        for future in as_completed(list(self._going), timeout_s):
            future.result()


class BrokerTransport:
    """Publishes the message to its queue through the relay; a worker that serves the queue handles it."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    def record(self, connection: Connection, run_id: str) -> int:
        return announce(connection, run_id)

    def send(self, message: BusMessage, outbox_row: int | None) -> None:
        self._relay.publish_soon(message.run_id, message, outbox_row)


def find_handler(message: BusMessage) -> Handle:
    """Return the handler of a message that this process handles itself."""
    module, _, attribute = (message.inline_handler or "").partition(":")
    handler: Handle = getattr(importlib.import_module(module), attribute)
    return handler


# --- which transport takes a run's message


INLINE = "(inline)"
"""The route of runs whose caller waits in this process. A queue cannot have this name."""
OTHERS = "*"
"""The route of every queue that has none of its own."""


class Dispatcher:
    """Maps a queue to a transport; the caller of `Runner.run` does not see which one is used."""

    def __init__(self, routes: Mapping[str, Transport]) -> None:
        self._routes = routes

    def route(self, queue: str | None, *, detached: bool) -> Transport:
        """Return the transport of a run: inline where its caller waits and this process has that route."""
        if not detached and INLINE in self._routes:
            return self._routes[INLINE]
        return self._routes.get(queue or OTHERS, self._routes[OTHERS])
