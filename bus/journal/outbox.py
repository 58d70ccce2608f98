"""The relay: publishes the wake-ups of accepted runs on a thread of its own, and publishes lost ones again."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, delete, insert, or_, select

from bus.errors import BrokerMissing
from bus.messages.message import BusMessage
from bus.messages.run_agent import FIELDS, RunAgentMessage
from config.database.engine import WALL_MS, Database
from config.database.tables import outbox, runs
from config.errors import CallboardError
from config.failpoints import failpoint

log = logging.getLogger(__name__)

Publish = Callable[[BusMessage], None]
BATCH = 200
LULL_S = 0.02
"""Seconds without a new request after which the rows of published wake-ups are deleted."""
COMMIT_S = 5.0
"""Seconds that a caller's commit may take whose runs are published right behind it."""
OVERDUE_MS = 1000
"""From this age on any process publishes a row: its writer died, or Redis was down."""


def announce(connection: Connection, run_id: str) -> int:
    """Write the outbox row that asks for the wake-up of a queued run, and return its id."""
    row: int = connection.execute(_ANNOUNCE, {"run_id": run_id}).scalar_one()
    return row


_ANNOUNCE = insert(outbox).values(created_ms=WALL_MS).returning(outbox.c.id)


class _Request(NamedTuple):
    run_id: str
    message: BusMessage | None = None
    """The wake-up; None is read from SQL, as is an unknown row."""
    row: int | None = None
    until_s: float = 0.0
    """How long, on the monotonic clock, to wait for the commit of a run that SQL does not have yet."""


class Relay:
    """One thread with its own connection. A wake-up may be published twice: a run is claimed once all the same."""

    def __init__(
        self,
        database: Database,
        publish: Publish,
        *,
        every_s: float,
        on_published: Callable[[str, str], None] = lambda tenant, run_id: None,
    ) -> None:
        self._database = database
        self._publish = publish
        self._every_s = every_s
        self._on_published = on_published
        self._requests: queue.SimpleQueue[_Request | BusMessage | None] = queue.SimpleQueue()
        self._pending = 0
        self._tried = 0
        self._published: list[int] = []
        self._uncommitted: list[_Request] = []
        self._settled = threading.Condition()
        self._thread: threading.Thread | None = None
        self.is_failing = False
        """Whether the last attempt to publish failed."""
        self._starting = threading.Lock()

    def start(self) -> None:
        """Start the thread, which also publishes overdue rows of other processes; a second call does nothing."""
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="callboard-relay", daemon=True)
                self._thread.start()

    def publish_soon(self, run_id: str, message: BusMessage | None = None, row: int | None = None) -> None:
        """Queue this run's wake-up for publishing and return at once.

        The message and the outbox row are read from SQL where they are not given.
        """
        with self._settled:
            self._pending += 1
        self._requests.put(_Request(run_id, message, row))
        if self._thread is None:
            self.start()

    def publish_once_committed(self, run_id: str) -> None:
        """Queue the wake-up of a run whose transaction commits now, in this process; return at once.

        It is published when SQL has the run. If that takes longer, its outbox row is published as an overdue one.
        """
        with self._settled:
            self._pending += 1
        self._requests.put(_Request(run_id, until_s=time.monotonic() + COMMIT_S))
        self.start()

    def send_soon(self, message: BusMessage) -> None:
        """Queue a message for publishing that has no row in the outbox, and return at once; if it fails, it is lost."""
        with self._settled:
            self._pending += 1
        self._requests.put(message)
        self.start()

    def settle(self, timeout_s: float) -> bool:
        """Wait until the publishing of every queued wake-up was tried; return False after ``timeout_s``."""
        with self._settled:
            return self._settled.wait_for(lambda: self._pending == 0, timeout_s)

    def stop(self) -> None:
        """End the thread after it has published what is queued."""
        if self._thread is not None:
            self._requests.put(None)
            self._thread.join(2)
            self._thread = None

    def _work(self) -> None:
        next_look, is_open = time.monotonic(), True
        while is_open:
            is_hurried = self._tried or self._uncommitted
            gathered = self._gather(LULL_S if is_hurried else max(0.01, next_look - time.monotonic()))
            is_open = None not in gathered
            requests = [*self._uncommitted, *(request for request in gathered if isinstance(request, _Request))]
            messages = [message for message in gathered if isinstance(message, BusMessage)]
            self._uncommitted = []
            self._publish_all(requests)
            self._send(messages)
            self._tried += len(requests) - len(self._uncommitted) + len(messages)
            if self._tried and (not (requests or messages) or not is_open or self._tried >= BATCH):
                self._clear()
            if is_open and time.monotonic() >= next_look:
                overdue = self._overdue()
                is_more = self._publish_all(overdue) and len(overdue) == BATCH
                self._clear()
                next_look = time.monotonic() + (0.0 if is_more else self._every_s)

    def _clear(self) -> None:
        """Delete the rows of published wake-ups in one commit, and notify callers of ``settle``."""
        rows, self._published = self._published, []
        try:
            self._forget(rows)
        except Exception as error:  # the thread must survive any error: this process has no other
            log.warning("published wake-ups stay in the outbox and are published again: %s", _shown_error(error))
        tried, self._tried = self._tried, 0
        with self._settled:
            self._pending -= tried
            self._settled.notify_all()

    def _gather(self, timeout_s: float) -> list[_Request | BusMessage | None]:
        """Return queued requests, at most ``BATCH``; None as the last one after ``stop``."""
        requests: list[_Request | BusMessage | None] = []
        try:
            requests.append(self._requests.get(timeout=timeout_s))
            while requests[-1] is not None and len(requests) < BATCH:
                requests.append(self._requests.get_nowait())
        except queue.Empty:
            pass
        return requests

    def _overdue(self) -> list[_Request]:
        query = select(outbox.c.run_id).where(_IS_OVERDUE).order_by(outbox.c.id).limit(BATCH)
        try:
            with self._database.read() as connection:
                return [_Request(run_id) for run_id in dict.fromkeys(connection.execute(query).scalars())]
        except Exception as error:  # whatever it is, the next look must come
            log.warning("looking for overdue wake-ups failed: %s", _shown_error(error))
            return []

    def _publish_all(self, requests: Sequence[_Request]) -> bool:
        """Publish these wake-ups and return whether that went well."""
        if not requests:
            return True
        try:
            rows = self._rows(requests)
            by_run = {request.run_id: request.message for request in requests if request.message is not None}
            unknown = [request.run_id for request in requests if request.run_id not in by_run]
            read = self._messages(unknown) if unknown else []
            self._keep_uncommitted(requests, {*by_run, *(message.run_id for message in read)})
            for message in [*by_run.values(), *read]:
                self._publish(message)
                failpoint("publish")
                self._on_published(message.tenant, message.run_id)
            self._published += rows
            if self.is_failing:
                log.warning("wake-ups are published again")
            self.is_failing = False
            return True
        except BrokerMissing as error:
            log.debug("wake-ups stay in the outbox: %s", error)
        except Exception as error:  # kombu raises its transports' own errors
            # Warn once an outage: each run that is accepted meanwhile fails in the same way.
            level = logging.DEBUG if self.is_failing else logging.WARNING
            text = "wake-ups stay in the outbox until they can be published; workers look there: %s"
            log.log(level, text, _shown_error(error))
        self.is_failing = True
        return False

    def _send(self, messages: Sequence[BusMessage]) -> None:
        """Publish messages that may be lost; one that cannot be published takes the ones behind it along."""
        try:
            for message in messages:
                self._publish(message)
        except Exception as error:  # kombu raises its transports' own errors
            log.debug("a message was not published: %s", _shown_error(error))

    def _keep_uncommitted(self, requests: Sequence[_Request], run_ids: Collection[str]) -> None:
        """Keep the requests for the next round whose runs SQL does not have yet."""
        now_s = time.monotonic()
        self._uncommitted = [
            request for request in requests if request.run_id not in run_ids and now_s < request.until_s
        ]

    def _rows(self, requests: Sequence[_Request]) -> list[int]:
        """Return the outbox rows of these runs as of now; a row added later asks for another wake-up."""
        rows = [request.row for request in requests if request.row is not None]
        if len(rows) == len(requests):
            return rows
        run_ids = {request.run_id for request in requests}
        with self._database.read() as connection:
            return list(connection.execute(select(outbox.c.id).where(outbox.c.run_id.in_(run_ids))).scalars())

    def _messages(self, run_ids: list[str]) -> list[RunAgentMessage]:
        """Return the wake-ups of those runs that are still queued."""
        query = _FOR_MESSAGE.where(runs.c.id.in_(run_ids))
        with self._database.read() as connection:
            return [RunAgentMessage.of_run(row) for row in connection.execute(query)]

    def _forget(self, rows: list[int]) -> None:
        if rows:
            with self._database.write() as connection:
                connection.execute(_FORGET, [{"id_": row} for row in rows])


def _shown_error(error: Exception) -> str:
    return str(error) if isinstance(error, CallboardError) else f"{type(error).__name__}: {error}"


_FOR_MESSAGE = select(runs.c.id, *(runs.c[name] for name in FIELDS)).where(runs.c.status == "queued")
# A row from the future (the database's clock was set back) counts as overdue too: publishing twice is harmless.
_IS_OVERDUE = or_(outbox.c.created_ms < WALL_MS - OVERDUE_MS, outbox.c.created_ms > WALL_MS + OVERDUE_MS)
_FORGET = delete(outbox).where(outbox.c.id == bindparam("id_"))
