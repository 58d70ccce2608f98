"""What a process sends to others at once: wake-ups through the relay, events through the hot log, hints to boards."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from bus.journal.live.database_id import database_id
from bus.journal.live.hotlog import HotLog, MemoryHotLog
from bus.journal.live.redis_log import RedisHotLog
from bus.journal.live.signatures import SECRET_NAME, Keyring
from bus.journal.outbox import Publish, Relay
from bus.journal.unowned.transitions import CommitResult
from bus.keys import Keys
from bus.loop import ProcessLoop
from bus.payloads import encode
from config.database.engine import Database
from config.database.shared_secret import shared_secret
from config.settings import Settings


class Live:
    """The relay and the hot log of one process. Either may lose everything: SQL has it, and readers look there."""

    def __init__(self, settings: Settings, database: Database, loop: ProcessLoop, publish: Publish) -> None:
        self._database = database
        self._loop = loop
        self._database_id: str | None = None
        self.keys = Keys(settings.deployment)
        keyring = Keyring(partial(loop.read, shared_secret, database, SECRET_NAME))
        self.hot_log: HotLog = _open_hot_log(settings, self.keys, keyring)
        self.stop_children: Callable[[str], None] = lambda run_id: None
        """Called with each run that ended without an owner, by the thread that publishes its end."""
        self.on_queued: dict[str, Callable[[], object]] = {}
        """By the run: called on the loop when this process has queued it again, or has ended it without an owner."""
        # The board is notified when the wake-up is published, so that accepting a run does not wait for Redis.
        self.relay = Relay(database, publish, every_s=settings.reap_s, on_published=self.nudge_board)

    def database_id(self) -> str:
        """Return the id that this deployment's workers announce in Redis; see ``bus.journal.live.database_id``."""
        if self._database_id is None:
            self._database_id = database_id(self._database)
        return self._database_id

    def publish(self, written: CommitResult) -> None:
        """Send viewers the events that were written without an owner, and publish the messages that go with them."""
        if written.wake is not None:
            self.relay.publish_soon(written.wake)
        if (on_queued := self.on_queued.get(written.run_id)) is not None:
            self._loop.call_soon(on_queued)
        for message in written.messages:
            self.relay.send_soon(message)
        if written.events:
            self._loop.call_soon(lambda: self._show(written))
        if written.parent is not None:
            self.publish(written.parent)
        if written.is_end:
            self.stop_children(written.run_id)

    def nudge_board(self, tenant: str, run_id: str) -> None:
        """Notify the feeds of the tenant's boards that a run's state changed."""
        self._loop.call_soon(lambda: self.hot_log.nudge(self.keys.board(tenant), run_id))

    def _show(self, written: CommitResult) -> None:
        run_id, fence = written.run_id, written.fence
        if self.hot_log.attach(run_id, fence, _Sealed(written)):  # else a later owner writes here
            for payload in written.events:
                self.hot_log.append(run_id, payload.seq, encode(payload, run_id, written.thread_id))
            self._loop.submit(self.hot_log.detach(run_id, fence))
        self.hot_log.nudge(self.keys.board(written.tenant), run_id)

    def close(self) -> None:
        """Send pending events and close the hot log's connections; the relay was stopped before."""
        closing: Future[None] = self._loop.submit(self.hot_log.close())
        closing.result(5)


class _Sealed:
    """The hot log's view of events that are in SQL already: none has to be sealed."""

    def __init__(self, written: CommitResult) -> None:
        self.tenant = written.tenant
        self.sealed_to = written.events[-1].seq

    def seal_soon(self) -> None:
        """There is nothing to seal."""

    def lost_ownership(self) -> None:
        """There is nothing to stop: the events are committed, with numbers below those of the later owner."""


def _open_hot_log(settings: Settings, keys: Keys, keyring: Keyring) -> HotLog:
    if settings.redis_url is None:
        return MemoryHotLog()
    return RedisHotLog(
        settings.redis_url,
        keys,
        keyring,
        ttl_s=settings.hot_log_ttl_s,
        max_bytes=settings.hot_log_max_bytes,
        budget_of=lambda tenant: settings.for_tenant(tenant).tenant_hot_log_max_bytes,
    )
