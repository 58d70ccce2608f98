"""One feed for all viewers of a run, over real sockets: the same bytes for everyone, however they come and go."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from typing import Any

import pytest

from bus.journal import Journal
from bus.journal.log.line import to_line
from bus.journal.readers import Line
from bus.payloads import ErrorPayload
from config.database.errors import DatabaseUnreachable
from tests.web.conftest import RunOwner, accept, eventually, process_of
from web.feeds import run as run_module
from web.feeds import viewers as viewers_module
from web.feeds.backlog import Backlog
from web.feeds.hub import Hub
from web.feeds.page import PAGES_AT_ONCE, RETRY, PageReader, frame
from web.feeds.viewers import Stream, Viewer
from web.sse import take_over


class Client:
    """A viewer's end of the line."""

    def __init__(self, hub: Hub, run: tuple[str, str], cursor: int = 0, receive_bytes: int | None = None) -> None:
        self.ours, theirs = socket.socketpair()
        if receive_bytes is not None:
            self.ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, receive_bytes)
        self.ours.settimeout(10)
        self.viewer = Viewer(hub.viewers, lambda: hub.run_feed("default", *run), cursor)
        theirs.setblocking(False)
        hub.viewers.welcome(theirs, self.viewer)

    def read_until(self, mark: bytes) -> bytes:
        data = b""
        while mark not in data:
            data += self._some()
        return data

    def read_all(self) -> bytes:
        data = b""
        while piece := self._some():
            data += piece
        self.ours.close()
        return data

    def _some(self) -> bytes:
        try:
            return self.ours.recv(65536)
        except ConnectionResetError:
            return b""


@pytest.fixture
def hub(app) -> Hub:
    return process_of(app).hub


@pytest.fixture
def run(runner) -> tuple[str, str]:
    run_id = accept(runner)
    return run_id, runner.handle(run_id).thread_id


def events(data: bytes) -> list[int]:
    return [int(line[4:]) for line in data.split(b"\n") if line.startswith(b"id: ")]


def test_two_viewers_see_the_same_bytes_live(hub: Hub, run, journal) -> None:
    owner = RunOwner(journal, run[0])
    clients = [Client(hub, run), Client(hub, run)]
    for client in clients:
        client.read_until(b"id: 2\n")

    owner.say("a", "b")
    owner.say("c")
    owner.finish("abc")
    first, second = (client.read_all() for client in clients)

    assert first == second
    assert events(first)[-5:] == [3, 4, 5, 6, 7]


def test_a_run_is_read_once_for_all_its_viewers(hub: Hub, run, journal) -> None:
    owner = RunOwner(journal, run[0])
    clients = [Client(hub, run) for _ in range(20)]
    for client in clients:
        client.read_until(b"id: 2\n")
    eventually(lambda: len(hub.run_feed("default", *run)._live) == 20)

    eventually(lambda: run[0] in journal.live.hot_log._listeners)
    assert len(journal.live.hot_log._listeners[run[0]]) == 1
    owner.finish()
    assert len({client.read_all()[-200:] for client in clients}) == 1


@pytest.mark.parametrize("when", ["live", "ended"])
def test_resuming_at_every_cursor_gives_the_same_bytes(hub: Hub, run, journal, when: str) -> None:
    owner = RunOwner(journal, run[0])
    whole = Client(hub, run)
    whole.read_until(b"id: 2\n")
    owner.say(*"abcdefgh")
    owner.commit(ErrorPayload(code="model_failed", message="again", retryable=True))
    owner.say(*"ijkl")
    late = [Client(hub, run, cursor=cursor) for cursor in range(15)] if when == "live" else []
    if when == "live":
        eventually(lambda: len(hub.run_feed("default", *run)._live) == 16)
    owner.finish("abcdefghijkl")
    if when == "ended":
        late = [Client(hub, run, cursor=cursor) for cursor in range(17)]

    everything = b"".join(frame(line) for line in journal.readers.follow_blocking("default", *run, 0))
    for cursor, client in enumerate(late):
        data = client.read_all()
        behind = everything.partition(b"id: %d\n\n" % cursor)[2] if cursor else everything
        assert data == RETRY + behind


def test_a_viewer_behind_the_ring_reads_pages_first(hub: Hub, run, journal, monkeypatch) -> None:
    monkeypatch.setattr(run_module, "RING_EVENTS", 4)
    owner = RunOwner(journal, run[0])
    first = Client(hub, run)
    first.read_until(b"id: 2\n")
    owner.say(*("x" for _ in range(300)))
    first.read_until(b"id: 302\n")

    late = Client(hub, run, cursor=1)
    late.read_until(b"id: 302\n")
    eventually(lambda: len(hub.run_feed("default", *run)._live) == 2)
    owner.finish()

    assert events(late.read_all())[-2:] == [303, 304]
    assert len(hub.run_feed("default", *run)._ring) <= 4


def test_an_ended_run_with_a_long_streamed_text_is_read_page_by_page_without_a_wait(
    hub: Hub, run, journal, monkeypatch
) -> None:
    followed: list[Any] = []
    monkeypatch.setattr(journal.readers, "follow", lambda *where, **_: followed.append(where))
    owner = RunOwner(journal, run[0])
    owner.say(*["x" * 100_000] * 15)  # one block, and larger than a page
    owner.finish("short")

    data = Client(hub, run).read_all()

    assert events(data) == list(range(1, 20))
    assert followed == [], "a follower waits until nothing has arrived for a while before it asks for more"


@pytest.mark.parity  # seconds
def test_a_gap_that_is_declared_pages_later_is_passed_over(hub: Hub, run, journal) -> None:
    owner = RunOwner(journal, run[0])
    owner.say("lost")
    for _ in range(10):
        owner.commit(ErrorPayload(code="model_failed", message="x" * 130_000, retryable=True))
    assert journal.readers.page(*run, 2)[1], "a page that sets nothing free"
    journal.loop.run(owner.writer.withdraw("msg_1"))
    owner.message_id = "msg_2"
    owner.finish("x")

    data = Client(hub, run).read_all()

    assert events(data) == [1, 2, *range(4, 17)]


class StuckRedis:
    """A hot log that answers no reader until it may, and counts the readers that wait."""

    def __init__(self, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waiting = self.most = 0
        self._may_answer = asyncio.Event()
        self._journal = journal
        monkeypatch.setattr(journal.live.hot_log, "read_after", self._read_after)

    def answer(self) -> None:
        self._journal.loop.call_soon(self._may_answer.set)

    async def _read_after(self, _tenant: str, _run_id: str, _cursor: int) -> list[Line]:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        await self._may_answer.wait()
        self.waiting -= 1
        return []


def test_small_pages_wait_for_redis_beside_each_other_and_only_so_many(hub: Hub, runner, journal, monkeypatch) -> None:
    redis = StuckRedis(journal, monkeypatch)
    count = PAGES_AT_ONCE + 4
    runs = [accept(runner, f"{number}") for number in range(count)]

    clients = [Client(hub, (run_id, runner.handle(run_id).thread_id)) for run_id in runs]
    eventually(lambda: redis.waiting == PAGES_AT_ONCE)
    eventually(lambda: len(hub.viewers) == count)
    redis.answer()
    seen = [events(client.read_until(b"id: 1\n")) for client in clients]

    assert seen == [[1]] * count
    assert redis.most == PAGES_AT_ONCE


@pytest.mark.parity  # megabytes
def test_a_large_page_that_waits_for_redis_is_the_only_one(hub: Hub, runner, journal, monkeypatch) -> None:
    runs = [accept(runner, f"{number}") for number in range(3)]
    for run_id in runs:
        owner = RunOwner(journal, run_id)
        for _ in range(3):
            owner.commit(ErrorPayload(code="model_failed", message="x" * 130_000, retryable=True))
    redis, queries, page = StuckRedis(journal, monkeypatch), [], journal.readers.page

    def read(*where: Any) -> Any:
        queries.append(where)
        return page(*where)

    monkeypatch.setattr(journal.readers, "page", read)

    clients = [Client(hub, (run_id, runner.handle(run_id).thread_id)) for run_id in runs]
    eventually(lambda: len(hub.viewers) == 3 and redis.waiting == 1)
    assert len(queries) == 1
    redis.answer()
    seen = [events(client.read_until(b"id: 5\n")) for client in clients]

    assert seen == [[1, 2, 3, 4, 5]] * 3
    assert redis.most == 1


def test_redis_is_not_asked_for_the_page_of_an_ended_run(hub: Hub, run, journal, monkeypatch) -> None:
    RunOwner(journal, run[0]).finish("done")
    redis = StuckRedis(journal, monkeypatch)

    data = Client(hub, run).read_all()

    assert events(data) == [1, 2, 3, 4]
    assert redis.most == 0


def test_withdrawn_numbers_are_passed_over(hub: Hub, run, journal) -> None:
    owner = RunOwner(journal, run[0])
    owner.say("lost", "too")
    journal.loop.run(owner.writer.withdraw("msg_1"))
    journal.loop.run(journal.live.hot_log.detach(run[0]))  # what was withdrawn is nowhere now
    client = Client(hub, run)

    data = client.read_until(b"id: 5\n\n")

    assert events(data) == [1, 2, 5]


def test_a_viewer_ahead_of_the_feed_gets_nothing_twice(hub: Hub, run, journal) -> None:
    owner = RunOwner(journal, run[0])
    first = Client(hub, run)
    first.read_until(b"id: 2\n")
    ahead = Client(hub, run, cursor=5)
    eventually(lambda: len(hub.viewers) == 2)

    owner.say(*"abcdef")
    owner.finish("abcdef")

    assert events(ahead.read_all()) == [6, 7, 8, 9, 10]
    assert events(first.read_all()) == list(range(3, 11))


def test_hostile_text_stays_inside_its_event(hub: Hub, run, journal) -> None:
    hostile = [
        "\n\ndata: x\n\n",
        "\r\r",
        "\r\nevent: end\r\n",
        "\u2028\u2029\x85",
        "id: 99\n",
        "\0",
        "\ufeff",
        "retry: 1\n",
    ]
    owner = RunOwner(journal, run[0])
    owner.say(*hostile)
    owner.finish("".join(hostile))

    data = Client(hub, run).read_all()

    assert b"\r" not in data
    assert events(data) == list(range(1, 13))
    frames = data.removeprefix(RETRY).removesuffix(b"\n\n").split(b"\n\n")
    assert len(frames) == 12
    for number, text in enumerate(frames, start=1):
        lines = text.split(b"\n")
        assert [line.split(b":")[0] for line in lines] == [b"event", b"data", b"id"]
        assert lines[2] == b"id: %d" % number


def test_a_forged_line_cannot_end_an_event() -> None:
    forged = to_line(b'{"seq":7,"run_id":"r","type":"re\rid: 1","at":"","x":1}\r\rdata: x')

    assert b"\r" not in frame(forged)
    assert frame(Line(1, "x", b"{}")) == b"event: x\ndata: {}\nid: 1\n\n"


def test_a_viewer_that_stops_reading_is_dropped_and_the_others_are_not(hub: Hub, run, journal, monkeypatch) -> None:
    monkeypatch.setattr(viewers_module, "STUCK_S", 0.3)
    monkeypatch.setattr(viewers_module, "LOOK_S", 0.05)
    owner = RunOwner(journal, run[0])
    stopped, good = Client(hub, run, receive_bytes=4096), Client(hub, run)
    for client in (stopped, good):
        client.read_until(b"id: 2\n")
    eventually(lambda: len(hub.run_feed("default", *run)._live) == 2)

    received: list[bytes] = []
    reading = threading.Thread(target=lambda: received.append(good.read_all()))
    reading.start()
    for _ in range(40):
        owner.say("y" * 10_000)
    eventually(lambda: stopped.viewer not in hub.viewers)
    owner.finish("y")
    reading.join()

    assert events(received[0])[-1] == 44
    cursor = ([2, *events(stopped.read_all())])[-1] - 1  # the last one may have come in part
    assert events(Client(hub, run, cursor=cursor).read_all()) == list(range(cursor + 1, 45))


def test_a_slow_viewer_holds_little_and_catches_up(hub: Hub, run, journal) -> None:
    owner = RunOwner(journal, run[0])
    slow = Client(hub, run, receive_bytes=4096)
    data = slow.read_until(b"id: 2\n")
    eventually(lambda: len(hub.run_feed("default", *run)._live) == 1)

    for _ in range(100):
        owner.say("z" * 10_000)
    eventually(lambda: bool(slow.viewer.stuck_since))
    assert slow.viewer.transport.get_write_buffer_size() < 400_000
    owner.finish("z")
    data += slow.read_all()

    assert events(data) == list(range(1, 105))


def test_a_feed_without_viewers_stops(hub: Hub, run, journal, monkeypatch) -> None:
    monkeypatch.setattr(run_module, "LINGER_S", 0.01)
    RunOwner(journal, run[0])
    client = Client(hub, run)
    client.read_until(b"id: 2\n")
    eventually(lambda: run[0] in journal.live.hot_log._listeners)

    client.ours.close()

    eventually(lambda: run[0] not in journal.live.hot_log._listeners)
    assert not hub.viewers


def test_all_viewers_get_comments(hub: Hub, run, journal, monkeypatch) -> None:
    monkeypatch.setattr(viewers_module, "BEAT_S", 0.02)
    RunOwner(journal, run[0])

    data = Client(hub, run).read_until(b"\n\n:\n:\n")

    assert data.startswith(RETRY)


def test_a_client_that_chatters_is_no_viewer(hub: Hub, run, journal) -> None:
    RunOwner(journal, run[0])
    client = Client(hub, run)
    client.read_until(b"id: 2\n")

    client.ours.sendall(b"x" * 5000)

    eventually(lambda: not hub.viewers)


@pytest.mark.parity
def test_the_server_keeps_a_socket_that_is_closed_already() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    browser = socket.create_connection(listener.getsockname())
    lent, _ = listener.accept()

    ours = take_over(lent)
    lent.settimeout(5)
    assert lent.recv(10) == b"", "at once; a socket that was left open would time out"
    lent.close()
    ours.sendall(b"hello")

    assert browser.recv(10) == b"hello"
    for each in (ours, browser, listener):
        each.close()


def test_an_end_that_fills_a_viewers_buffer_closes_its_stream_all_the_same(hub: Hub, run, journal) -> None:
    owner = RunOwner(journal, run[0])
    client = Client(hub, run, receive_bytes=4096)
    client.read_until(b"id: 2\n")
    eventually(lambda: len(hub.run_feed("default", *run)._live) == 1)

    owner.finish("x" * 500_000)
    eventually(lambda: client.viewer.stuck_since > 0)
    data = client.read_all()

    assert data.count(b"event: end\n") == 1
    assert events(data)[-1] == 4


def test_viewers_that_wait_for_the_database_are_logged_once(hub: Hub, run, journal, monkeypatch, caplog) -> None:
    read, read_signal = PageReader.read, threading.Semaphore(0)

    async def refuse(*_: object) -> None:
        read_signal.release()
        raise DatabaseUnreachable("away")

    monkeypatch.setattr(run_module, "DATABASE_RETRY_S", 0.02)
    monkeypatch.setattr(PageReader, "read", refuse)
    caplog.set_level(logging.INFO, logger="web.feeds.run")
    client = Client(hub, run)
    for _ in range(4):
        assert read_signal.acquire(timeout=10)
    monkeypatch.setattr(PageReader, "read", read)
    client.read_until(b"id: 1\n")

    assert [record.getMessage() for record in caplog.records] == ["viewers wait for the database: away"]


class Short(Stream):
    """A stream that ends at once, with more than a viewer's buffer and then a little."""

    MUCH, LITTLE = 200_000, 12_000

    def attach(self, viewer: Viewer) -> None:
        viewer.write(b"x" * self.MUCH)
        viewer.write(b"y" * self.LITTLE)
        viewer.finish()


def test_a_viewer_that_stops_reading_just_before_its_end_is_dropped(hub: Hub, monkeypatch) -> None:
    monkeypatch.setattr(viewers_module, "STUCK_S", 1.0)
    monkeypatch.setattr(viewers_module, "LOOK_S", 0.05)
    ours, theirs = socket.socketpair()
    for end, option in ((ours, socket.SO_RCVBUF), (theirs, socket.SO_SNDBUF)):
        end.setsockopt(socket.SOL_SOCKET, option, 4096)
    theirs.setblocking(False)
    viewer = Viewer(hub.viewers, Short, 0)
    hub.viewers.welcome(theirs, viewer)

    data = b""
    while len(data) < Short.MUCH:
        data += ours.recv(2048)

    assert viewer in hub.viewers
    eventually(lambda: viewer not in hub.viewers, timeout_s=5)
    ours.close()


@pytest.mark.parity  # megabytes
def test_viewers_that_come_one_after_another_share_a_large_page(hub: Hub, run, journal) -> None:
    RunOwner(journal, run[0]).finish("x" * 1_500_000)
    clients = []
    for _ in range(10):
        clients.append(Client(hub, run, receive_bytes=4096))
        clients[-1].read_until(b"id: 3\n")
    eventually(lambda: all(client.viewer.stuck_since for client in clients))

    assert 1_500_000 < hub.viewers.backlog.size < 2 * 1_600_000, "one page, held by ten"
    seen = {client.read_all()[-100:] for client in clients}
    eventually(lambda: not hub.viewers)
    assert len(seen) == 1
    assert hub.viewers.backlog.size == 0


@pytest.mark.parity
def test_viewers_behind_with_more_than_the_budget_are_dropped_and_come_back(hub: Hub, runner, journal) -> None:
    hub.viewers.backlog = Backlog(max_bytes=4_000_000)
    runs = [accept(runner, f"{number}") for number in range(4)]
    clients = []
    for run_id in runs:
        RunOwner(journal, run_id).finish("x" * 1_500_000)
        clients.append(Client(hub, (run_id, runner.handle(run_id).thread_id), receive_bytes=4096))
        eventually(lambda: clients[-1].viewer.stuck_since > 0)

    eventually(lambda: clients[0].viewer.is_gone)
    assert hub.viewers.backlog.size <= 4_000_000
    assert b"event: end\n" not in clients[0].read_all()
    again = Client(hub, (runs[0], runner.handle(runs[0]).thread_id))
    assert again.read_all().count(b"event: end\n") == 1
    for client in clients[1:]:
        client.ours.close()
