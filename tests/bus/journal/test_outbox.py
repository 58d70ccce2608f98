"""The wake-up of every accepted run is published at least once, by any relay."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from types import SimpleNamespace

import pytest
from sqlalchemy import Connection, delete, insert, select, update

from bus.journal import outbox as relays
from bus.journal.outbox import Relay
from bus.messages.look_at_tasks import LookAtTasksMessage
from bus.messages.message import BusMessage
from bus.messages.run_agent import RunAgentMessage
from config.clock import epoch_ms
from config.database.tables import outbox
from config.identity.principal import Principal
from config.tracing import traced
from tests.bus.journal_harness import JournalHarness, cancel


class Post:
    """Takes messages, unless it is closed."""

    def __init__(self) -> None:
        self.sent: list[BusMessage] = []
        self.tries = 0
        self.is_closed = False
        self._changed = threading.Condition()

    def __call__(self, message: BusMessage) -> None:
        with self._changed:
            self.tries += 1
            self._changed.notify_all()
            if self.is_closed:
                raise ConnectionError("Redis is away")
            self.sent.append(message)

    def until_tried(self, times: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.tries >= times, 20)

    @property
    def run_ids(self) -> list[str]:
        return [message.run_id for message in self.sent]


@pytest.fixture
def post() -> Post:
    return Post()


@pytest.fixture
def relay(harness: JournalHarness, post: Post) -> Iterator[Relay]:
    """A relay that looks for overdue rows when it starts, and then only long after."""
    outbox_relay = Relay(harness.database, post, every_s=30)
    yield outbox_relay
    outbox_relay.stop()


def rows(harness: JournalHarness) -> list[str]:
    return [row.run_id for row in harness.rows(select(outbox.c.run_id))]


def until_gone(harness: JournalHarness) -> None:
    """Wait until the outbox is empty."""
    until = time.monotonic() + 20
    while rows(harness):
        assert time.monotonic() < until, "the outbox did not drain"
        time.sleep(0.005)


def test_the_end_of_a_run_announces_the_next_one_of_its_thread(harness: JournalHarness) -> None:
    first, second = (harness.accept(thread_id="mine") for _ in range(2))
    owner = harness.own(first.run_id)
    with harness.database.write() as connection:
        connection.execute(delete(outbox))  # as after the wake-ups that came too early

    harness.do(owner.end())

    assert rows(harness) == [second.run_id]


def age(harness: JournalHarness) -> None:
    with harness.database.write() as connection:
        connection.execute(update(outbox).values(created_ms=epoch_ms() - relays.OVERDUE_MS - 1))


TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"


def test_a_requested_wake_up_is_published_and_its_row_deleted(harness: JournalHarness, relay: Relay, post: Post):
    with traced(TRACE_ID):
        accepted = harness.accept(detached=True, queue="gpu")

    relay.publish_soon(accepted.run_id)
    assert relay.settle(20)

    expected = RunAgentMessage(
        run_id=accepted.run_id,
        agent_id="assistant",
        thread_id=accepted.thread_id,
        detached=True,
        definition_digest="d" * 64,
        queue="gpu",
        trace_id=TRACE_ID,
    )
    assert post.sent == [expected]
    assert rows(harness) == []


def test_a_message_that_is_known_already_is_published_as_it_is(harness: JournalHarness, relay: Relay, post: Post):
    accepted = harness.accept()
    message = RunAgentMessage(
        run_id=accepted.run_id, agent_id="assistant", thread_id=accepted.thread_id, grant_id="grn_1"
    )

    relay.publish_soon(accepted.run_id, message)
    assert relay.settle(20)

    assert post.sent == [message]
    assert rows(harness) == []


def test_the_board_is_notified_of_each_published_run(small_harness: JournalHarness, post: Post):
    notifications: list[tuple[str, str]] = []
    relay = Relay(small_harness.database, post, every_s=30, on_published=lambda *run: notifications.append(run))
    accepted = small_harness.accept()

    relay.publish_soon(accepted.run_id)
    assert relay.settle(20)
    relay.stop()

    assert notifications == [("default", accepted.run_id)]


def test_settled_means_that_it_was_tried(harness: JournalHarness, relay: Relay, post: Post):
    assert relay.settle(0)
    for _ in range(20):
        relay.publish_soon(harness.accept().run_id)
        assert relay.settle(20)
        assert rows(harness) == []

    assert len(post.sent) == 20


def test_stopping_at_once_still_publishes_what_was_requested(
    small_harness: JournalHarness, post: Post, monkeypatch: pytest.MonkeyPatch
):
    relay, run_ids = Relay(small_harness.database, post, every_s=30), [small_harness.accept().run_id for _ in range(2)]
    with monkeypatch.context() as held_back:
        held_back.setattr(relay, "start", lambda: None)
        for run_id in run_ids:
            relay.publish_soon(run_id)
    relay._requests.put(None)

    relay.start()
    relay.stop()

    assert sorted(post.run_ids) == sorted(run_ids)


def test_what_could_not_be_published_stays_and_is_published_later(small_harness: JournalHarness, post: Post):
    relay = Relay(small_harness.database, post, every_s=0.02)
    accepted, post.is_closed = small_harness.accept(), True
    relay.publish_soon(accepted.run_id)
    assert relay.settle(20)
    assert rows(small_harness) == [accepted.run_id]

    post.is_closed = False
    age(small_harness)

    until_gone(small_harness)
    relay.stop()
    assert post.run_ids == [accepted.run_id]


def test_what_another_process_did_not_publish_is_published_by_any(harness: JournalHarness, relay: Relay, post: Post):
    overdue = harness.accept()
    age(harness)
    fresh = harness.accept()

    relay.start()
    post.until_tried(1)
    relay.publish_soon("run_nobody_knows")
    assert relay.settle(20)

    assert post.run_ids == [overdue.run_id]
    assert rows(harness) == [fresh.run_id]


def test_a_long_backlog_drains_at_once(small_harness: JournalHarness, post: Post, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(relays, "BATCH", 7)
    run_ids = {small_harness.accept().run_id for _ in range(30)}
    age(small_harness)
    relay = Relay(small_harness.database, post, every_s=30)

    relay.start()
    until_gone(small_harness)
    relay.stop()

    assert set(post.run_ids) == run_ids
    assert len(post.sent) == 30


def test_a_backlog_is_not_tried_in_a_loop_while_redis_is_away(
    small_harness: JournalHarness, post: Post, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(relays, "BATCH", 3)
    for _ in range(9):
        small_harness.accept()
    age(small_harness)
    post.is_closed = True
    relay = Relay(small_harness.database, post, every_s=30)

    relay.start()
    post.until_tried(1)
    relay.publish_soon("run_nobody_knows")
    relay.settle(20)
    relay.stop()

    assert post.tries == 1


def test_publishing_twice_is_harmless(harness: JournalHarness, relay: Relay, post: Post):
    accepted = harness.accept()
    for _ in range(3):
        relay.publish_soon(accepted.run_id)
    assert relay.settle(20)

    owner = harness.own(accepted.run_id)
    relay.publish_soon(accepted.run_id)
    assert relay.settle(20)

    assert set(post.run_ids) == {accepted.run_id}
    assert harness.run_row(accepted.run_id).fence == owner.lease.fence == 1


def test_runs_that_began_or_ended_meanwhile_leave_no_row(harness: JournalHarness, relay: Relay, post: Post):
    running, ended = harness.own(), harness.accept()
    cancel(harness.database, Principal(), ended.run_id, "ann")
    assert set(rows(harness)) == {running.lease.run_id, ended.run_id}

    for run_id in (running.lease.run_id, ended.run_id):
        relay.publish_soon(run_id)
    assert relay.settle(20)

    assert post.sent == []
    assert rows(harness) == []


def test_a_wake_up_asked_for_while_it_publishes_is_not_forgotten(harness: JournalHarness):
    accepted, sent = harness.accept(), []

    def publish(message: BusMessage) -> None:
        sent.append(message.run_id)
        with harness.database.write() as connection:
            connection.execute(insert(outbox).values(run_id=message.run_id, created_ms=epoch_ms()))

    relay = Relay(harness.database, publish, every_s=30)
    relay.publish_soon(accepted.run_id)
    assert relay.settle(20)
    relay.stop()

    assert sent == [accepted.run_id]
    assert rows(harness) == [accepted.run_id]


def test_an_unexpected_error_does_not_end_the_relay(small_harness: JournalHarness, post: Post):
    relay = Relay(small_harness.database, post, every_s=0.02)
    read, forget = small_harness.database.read, relay._forget
    first, failed = small_harness.accept(), []

    def fail_once(what: str) -> None:
        if what not in failed:
            failed.append(what)
            raise RuntimeError("this is unexpected")

    def shaky_read() -> AbstractContextManager[Connection]:
        fail_once("read")
        return read()

    def shaky_forget(rows: list[int]) -> None:
        if rows:
            fail_once("forget")
        forget(rows)

    relay._database = SimpleNamespace(read=shaky_read, write=small_harness.database.write)  # type: ignore[assignment]
    relay._forget = shaky_forget  # type: ignore[method-assign]
    age(small_harness)
    relay.start()
    until_gone(small_harness)
    relay.publish_soon(small_harness.accept().run_id)
    assert relay.settle(20)
    relay.stop()

    assert failed == ["read", "forget"]
    assert post.run_ids.count(first.run_id) == 2
    assert rows(small_harness) == []


def test_a_database_that_is_away_does_not_end_the_relay(small_harness: JournalHarness, post: Post):
    relay = Relay(small_harness.database, post, every_s=30)
    messages, failures = relay._messages, iter([True])

    def fail_once(run_ids: list[str]) -> list[RunAgentMessage]:
        if next(failures, False):
            raise RuntimeError("gone")
        return messages(run_ids)

    relay._messages = fail_once  # type: ignore[method-assign]  # a database that is away
    first, second = small_harness.accept(), small_harness.accept()
    relay.publish_soon(first.run_id)
    assert relay.settle(20)
    relay.publish_soon(second.run_id)
    assert relay.settle(20)
    relay.stop()

    assert post.run_ids == [second.run_id]


LOOK = LookAtTasksMessage(run_id="run_1")


def test_a_message_without_a_row_is_published_beside_the_wake_ups(harness: JournalHarness, relay: Relay, post: Post):
    accepted = harness.accept()

    relay.send_soon(LOOK)
    relay.publish_soon(accepted.run_id)
    assert relay.settle(20)

    assert sorted(post.run_ids) == sorted(["run_1", accepted.run_id])
    until_gone(harness)


def test_a_message_without_a_row_is_lost_while_the_broker_is_away(harness: JournalHarness, relay: Relay, post: Post):
    post.is_closed = True
    relay.send_soon(LOOK)
    assert relay.settle(20)
    post.is_closed = False

    relay.publish_soon(harness.accept().run_id)
    assert relay.settle(20)

    assert LOOK not in post.sent
    assert len(post.sent) == 1
    assert not relay.is_failing
