"""The inline route of a message: this process handles it on its own loop, without the broker."""

from __future__ import annotations

import importlib
import logging
from concurrent.futures import Future

from bus.loop import ProcessLoop
from bus.messages import RunAgentMessage

log = logging.getLogger(__name__)

HANDLERS = "handlers.run_agent"
"""The module whose ``handle`` handles a message; a name, since the bus does not import ``handlers``."""


class InlineTransport:
    """Handles each message on this process's loop at once."""

    def __init__(self, loop: ProcessLoop) -> None:
        self._loop = loop
        self._going: set[Future[None]] = set()

    def send(self, message: RunAgentMessage) -> None:
        """Begin to handle the message of a committed run, without waiting until it is handled."""
        future: Future[None] = self._loop.submit(importlib.import_module(HANDLERS).handle(message))
        self._going.add(future)
        future.add_done_callback(self._ended)

    def _ended(self, future: Future[None]) -> None:
        self._going.discard(future)
        if not future.cancelled() and (error := future.exception()) is not None:
            log.error("a message was not handled: %s: %s", type(error).__name__, error)

    def settle(self, timeout_s: float | None = None) -> None:
        """Wait until everything sent has been handled."""
        for future in list(self._going):
            future.result(timeout_s)
