"""The relay: publishes the wake-ups of accepted runs off the caller's path, and again what got lost."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, delete, insert, or_, select

from bus.messages import RunAgentMessage
from config.database import WALL_MS, Database
from config.errors import BrokerMissing, CallboardError
from config.failpoints import failpoint
from config.tables import outbox, runs

log = logging.getLogger(__name__)

Publish = Callable[[RunAgentMessage], None]
BATCH = 200
LULL_S = 0.02
"""How long nothing has to be told before what was published is cleared away."""
OVERDUE_MS = 1000
"""A row this old was missed by whoever wrote it (it died, or Redis was down), so anybody publishes it."""


def announce(connection: Connection, run_id: str) -> None:
    """Ask for the wake-up of a run that may begin, or go on."""
    connection.execute(_ANNOUNCE, {"run_id": run_id})


_ANNOUNCE = insert(outbox).inline().values(created_ms=WALL_MS)


class _Told(NamedTuple):
    run_id: str
    message: RunAgentMessage | None


class Relay:
    """One thread with its own connection. Publishing twice is harmless, so it need not be careful."""

    def __init__(
        self,
        database: Database,
        publish: Publish,
        *,
        every_s: float,
        on_published: Callable[[str], None] = lambda run_id: None,
    ) -> None:
        self._database = database
        self._publish = publish
        self._every_s = every_s
        self._on_published = on_published
        self._told: queue.SimpleQueue[_Told | None] = queue.SimpleQueue()
        self._untold = 0
        self._tried = 0
        self._published: list[int] = []
        self._rows_known: dict[str, int] = {}
        self._settled = threading.Condition()
        self._thread: threading.Thread | None = None
        self.is_failing = False
        """Whether the last attempt to publish failed."""
        self._starting = threading.Lock()

    def start(self) -> None:
        """Begin to look for overdue rows, also when nothing is accepted here."""
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="callboard-relay", daemon=True)
                self._thread.start()

    def expect(self, run_id: str, row: int) -> None:
        """Know the outbox row of a run that ``tell`` is about to be called for, so that it need not be looked up."""
        self._rows_known[run_id] = row

    def tell(self, run_id: str, message: RunAgentMessage | None = None) -> None:
        """Publish this run's wake-up soon, ``message`` where it is known already; returns at once."""
        with self._settled:
            self._untold += 1
        self._told.put(_Told(run_id, message))
        if self._thread is None:
            self.start()

    def settle(self, timeout_s: float) -> bool:
        """Wait until the publishing of everything told has been tried, and return whether it was."""
        with self._settled:
            return self._settled.wait_for(lambda: self._untold == 0, timeout_s)

    def stop(self) -> None:
        """End the thread after what it was told."""
        if self._thread is not None:
            self._told.put(None)
            self._thread.join(2)
            self._thread = None

    def _work(self) -> None:
        next_look, going_on = time.monotonic(), True
        while going_on:
            told, going_on = self._gather(LULL_S if self._tried else max(0.01, next_look - time.monotonic()))
            if told:
                self._publish_all([one.run_id for one in told], {o.run_id: o.message for o in told if o.message})
                self._tried += len(told)
            if self._tried and (not told or not going_on or self._tried >= BATCH):
                self._clear()
            if going_on and time.monotonic() >= next_look:
                overdue = self._overdue()
                is_more = self._publish_all(overdue, {}) and len(overdue) == BATCH
                self._clear()
                next_look = time.monotonic() + (0.0 if is_more else self._every_s)

    def _clear(self) -> None:
        """Take the rows of what was published out of the outbox, many in one commit, and tell who waits."""
        rows, self._published = self._published, []
        try:
            self._forget(rows)
        except Exception as wrong:  # whatever it is, the thread must go on: this process has no other
            log.warning("published wake-ups stay in the outbox and are published again: %s", _said(wrong))
        tried, self._tried = self._tried, 0
        with self._settled:
            self._untold -= tried
            self._settled.notify_all()

    def _gather(self, timeout_s: float) -> tuple[list[_Told], bool]:
        """Return what was told, and whether there will be more."""
        told: list[_Told] = []
        try:
            item = self._told.get(timeout=timeout_s)
            while item is not None:
                told.append(item)
                if len(told) == BATCH:
                    return told, True
                item = self._told.get_nowait()
        except queue.Empty:
            return told, True
        return told, False

    def _overdue(self) -> list[str]:
        query = select(outbox.c.run_id).where(_IS_OVERDUE).order_by(outbox.c.id).limit(BATCH)
        try:
            with self._database.read() as connection:
                return list(dict.fromkeys(connection.execute(query).scalars()))
        except Exception as wrong:  # whatever it is, the next look must come
            log.warning("looking for overdue wake-ups failed: %s", _said(wrong))
            return []

    def _publish_all(self, run_ids: list[str], known: Mapping[str, RunAgentMessage]) -> bool:
        """Publish the wake-ups of these runs and return whether that went well; unknown ones are looked up."""
        if not run_ids:
            return True
        try:
            rows = self._rows(run_ids)
            unknown = [run_id for run_id in run_ids if run_id not in known]
            for message in [*known.values(), *(self._messages(unknown) if unknown else ())]:
                self._publish(message)
                failpoint("publish")
                self._on_published(message.run_id)
            self._published += rows
            if self.is_failing:
                log.warning("wake-ups are published again")
            self.is_failing = False
            return True
        except BrokerMissing as wrong:
            log.debug("wake-ups stay in the outbox: %s", wrong)
        except Exception as wrong:  # kombu raises its transports' own errors
            self._say_failing(_said(wrong))
        self.is_failing = True
        return False

    def _say_failing(self, wrong: str) -> None:
        """Warn once an outage: each run that is accepted meanwhile fails in the same way."""
        level = logging.DEBUG if self.is_failing else logging.WARNING
        log.log(level, "wake-ups stay in the outbox until they can be published; workers look there: %s", wrong)

    def _rows(self, run_ids: list[str]) -> list[int]:
        """Return the rows that are there now: one added from here on asks for another wake-up."""
        known = [row for run_id in run_ids if (row := self._rows_known.pop(run_id, None)) is not None]
        if len(known) == len(run_ids):
            return known
        with self._database.read() as connection:
            return list(connection.execute(select(outbox.c.id).where(outbox.c.run_id.in_(run_ids))).scalars())

    def _messages(self, run_ids: list[str]) -> list[RunAgentMessage]:
        """Return the wake-ups of those that wait; the others were begun, or are over."""
        query = _FOR_MESSAGE.where(runs.c.id.in_(run_ids))
        with self._database.read() as connection:
            return [
                RunAgentMessage(
                    run_id=row.id, agent_id=row.agent_id, thread_id=row.thread_id, detached=row.detached,
                    definition_digest=row.definition_digest,
                )
                for row in connection.execute(query)
            ]  # fmt: skip

    def _forget(self, rows: list[int]) -> None:
        if rows:
            with self._database.write() as connection:
                connection.execute(_FORGET, [{"its_id": row} for row in rows])


def _said(wrong: Exception) -> str:
    return str(wrong) if isinstance(wrong, CallboardError) else f"{type(wrong).__name__}: {wrong}"


_FOR_MESSAGE = select(
    runs.c.id, runs.c.agent_id, runs.c.thread_id, runs.c.detached, runs.c.definition_digest, runs.c.status
).where(runs.c.status == "queued")
# From the future: the database's clock was set back. Publishing twice is harmless, so that counts as overdue too.
_IS_OVERDUE = or_(outbox.c.created_ms < WALL_MS - OVERDUE_MS, outbox.c.created_ms > WALL_MS + OVERDUE_MS)
_FORGET = delete(outbox).where(outbox.c.id == bindparam("its_id"))
