"""The two ways a message reaches its handler: here and now, or through the queue."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Protocol

from bus.journal.outbox import Relay
from bus.loop import ProcessLoop
from bus.messages import RunAgentMessage

log = logging.getLogger(__name__)

Handle = Callable[[RunAgentMessage], Awaitable[None]]

HANDLERS = {RunAgentMessage.name: "handlers.run_agent:handle"}
"""Where each message is handled, by name: the bus does not import handlers."""


class Route(Protocol):
    """Takes a message to its handler."""

    def send(self, message: RunAgentMessage) -> None:
        """Return as soon as the message is on its way."""


class SynchronousRoute:
    """Handles the message in this process, beginning at once."""

    def __init__(self, loop: ProcessLoop) -> None:
        self._loop = loop
        self._going: set[Future[None]] = set()

    def send(self, message: RunAgentMessage) -> None:
        handle = find_handler(message.name)

        async def work() -> None:
            await handle(message)

        future = self._loop.submit(work())
        self._going.add(future)
        future.add_done_callback(self._ended)

    def _ended(self, future: Future[None]) -> None:
        self._going.discard(future)
        if not future.cancelled() and (wrong := future.exception()) is not None:
            log.error("a message was not handled: %s: %s", type(wrong).__name__, wrong)

    def settle(self, timeout_s: float | None = None) -> None:
        """Wait until everything sent has been handled."""
        for future in list(self._going):
            future.result(timeout_s)


class AsynchronousRoute:
    """Has the relay publish the message; a worker handles it."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    def send(self, message: RunAgentMessage) -> None:
        self._relay.tell(message.run_id, message)


def find_handler(name: str) -> Handle:
    """Return the one handler of the message called ``name``."""
    module, _, attribute = HANDLERS[name].partition(":")
    handler: Handle = getattr(importlib.import_module(module), attribute)
    return handler
