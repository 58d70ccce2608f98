"""The relay: publishes the wake-ups of accepted runs off the caller's path, and again what got lost."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable

from sqlalchemy import bindparam, delete, select

from bus.messages import RunAgentMessage
from config.clock import epoch_ms
from config.database import Database
from config.errors import CallboardError
from config.tables import outbox, runs

log = logging.getLogger(__name__)

Publish = Callable[[RunAgentMessage], None]
BATCH = 200
OVERDUE_MS = 1000
"""A row this old was missed by whoever wrote it (it died, or Redis was down), so anybody publishes it."""


class Relay:
    """One thread with its own connection. Publishing twice is harmless, so it need not be careful."""

    def __init__(self, database: Database, publish: Publish, *, every_s: float) -> None:
        self._database = database
        self._publish = publish
        self._every_s = every_s
        self._told: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._idle = threading.Event()
        self._idle.set()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def start(self) -> None:
        """Begin to look for overdue rows, also when nothing is accepted here."""
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="callboard-relay", daemon=True)
                self._thread.start()

    def tell(self, run_id: str) -> None:
        """Publish this run's wake-up soon; returns at once."""
        self._idle.clear()
        self._told.put(run_id)
        if self._thread is None:
            self.start()

    def settle(self, timeout_s: float) -> bool:
        """Wait until everything told has been published, and return whether it was."""
        return self._idle.wait(timeout_s)

    def stop(self) -> None:
        """End the thread after what it was told."""
        if self._thread is not None:
            self._told.put(None)
            self._thread.join(2)
            self._thread = None

    def _work(self) -> None:
        next_look = time.monotonic()
        while True:
            try:
                told = self._gather(max(0.01, next_look - time.monotonic()))
            except StopIteration:
                return
            if told:
                self._send(told)
            if time.monotonic() >= next_look:
                self._send(self._overdue())
                next_look = time.monotonic() + self._every_s
            if self._told.empty():
                self._idle.set()

    def _gather(self, timeout_s: float) -> list[str]:
        told: list[str] = []
        try:
            item = self._told.get(timeout=timeout_s)
            while True:
                if item is None:
                    raise StopIteration
                told.append(item)
                if len(told) == BATCH:
                    return told
                item = self._told.get_nowait()
        except queue.Empty:
            return told

    def _overdue(self) -> list[str]:
        query = (
            select(outbox.c.run_id).where(outbox.c.created_ms < epoch_ms() - OVERDUE_MS).order_by(outbox.c.id).limit(BATCH)
        )
        try:
            with self._database.read() as connection:
                return list(dict.fromkeys(connection.execute(query).scalars()))
        except CallboardError as wrong:
            log.warning("looking for overdue wake-ups failed: %s", wrong)
            return []

    def _send(self, run_ids: list[str]) -> None:
        if not run_ids:
            return
        try:
            messages = self._messages(run_ids)
            for message in messages:
                self._publish(message)
            self._forget(run_ids)
        except CallboardError as wrong:
            log.warning("wake-ups stay in the outbox: %s", wrong)
        except Exception as wrong:  # kombu raises its transports' own errors
            log.warning("wake-ups stay in the outbox: %s: %s", type(wrong).__name__, wrong)

    def _messages(self, run_ids: list[str]) -> list[RunAgentMessage]:
        query = _FOR_MESSAGE.where(runs.c.id.in_(run_ids))
        with self._database.read() as connection:
            return [
                RunAgentMessage(
                    run_id=row.id, agent_id=row.agent_id, thread_id=row.thread_id, detached=row.detached,
                    definition_digest=row.definition_digest,
                )
                for row in connection.execute(query)
            ]  # fmt: skip

    def _forget(self, run_ids: list[str]) -> None:
        with self._database.write() as connection:
            connection.execute(_FORGET, [{"its_run": run_id} for run_id in run_ids])


_FOR_MESSAGE = select(
    runs.c.id, runs.c.agent_id, runs.c.thread_id, runs.c.detached, runs.c.definition_digest, runs.c.status
).where(runs.c.status == "queued")
_FORGET = delete(outbox).where(outbox.c.run_id == bindparam("its_run"))
