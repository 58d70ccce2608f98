"""One feed for all viewers of a run, over real sockets: the same bytes for everyone, however they come and go."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from bus.journal.line import Line, to_line
from bus.payloads import ErrorPayload
from tests.web.conftest import Hand, accept, eventually, process_of
from web import hub as hub_module
from web.backlog import Backlog
from web.feeds import run as run_module
from web.hub import Hub
from web.sse import RETRY, Viewer, frame, take_over


class Client:
    """A viewer's end of the line."""

    def __init__(self, hub: Hub, run: tuple[str, str], cursor: int = 0, receive_bytes: int | None = None) -> None:
        self.ours, theirs = socket.socketpair()
        if receive_bytes is not None:
            self.ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, receive_bytes)
        self.ours.settimeout(10)
        self.viewer = Viewer(hub, lambda hub: hub.run_feed(*run), cursor)
        theirs.setblocking(False)
        hub.welcome(theirs, self.viewer)

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
    hand = Hand(journal, run[0])
    clients = [Client(hub, run), Client(hub, run)]
    for client in clients:
        client.read_until(b"id: 2\n")

    hand.say("a", "b")
    hand.say("c")
    hand.finish("abc")
    first, second = (client.read_all() for client in clients)

    assert first == second
    assert events(first)[-5:] == [3, 4, 5, 6, 7]


def test_a_run_is_read_once_for_all_its_viewers(hub: Hub, run, journal) -> None:
    hand = Hand(journal, run[0])
    clients = [Client(hub, run) for _ in range(20)]
    for client in clients:
        client.read_until(b"id: 2\n")
    eventually(lambda: len(hub.run_feed(*run)._live) == 20)

    eventually(lambda: run[0] in journal.hot_log._listeners)
    assert len(journal.hot_log._listeners[run[0]]) == 1
    hand.finish()
    assert len({client.read_all()[-200:] for client in clients}) == 1


@pytest.mark.parametrize("when", ["live", "ended"])
def test_resuming_at_every_cursor_gives_the_same_bytes(hub: Hub, run, journal, when: str) -> None:
    hand = Hand(journal, run[0])
    whole = Client(hub, run)
    whole.read_until(b"id: 2\n")
    hand.say(*"abcdefgh")
    hand.commit(ErrorPayload(code="model_failed", message="again", retryable=True))
    hand.say(*"ijkl")
    late = [Client(hub, run, cursor=cursor) for cursor in range(15)] if when == "live" else []
    if when == "live":
        eventually(lambda: len(hub.run_feed(*run)._live) == 16)
    hand.finish("abcdefghijkl")
    if when == "ended":
        late = [Client(hub, run, cursor=cursor) for cursor in range(17)]

    everything = b"".join(frame(line) for line in journal.follow_here(*run, 0))
    for cursor, client in enumerate(late):
        data = client.read_all()
        behind = everything.partition(b"id: %d\n\n" % cursor)[2] if cursor else everything
        assert data == RETRY + behind


def test_a_viewer_behind_the_ring_reads_pages_first(hub: Hub, run, journal, monkeypatch) -> None:
    monkeypatch.setattr(run_module, "RING_EVENTS", 4)
    hand = Hand(journal, run[0])
    first = Client(hub, run)
    first.read_until(b"id: 2\n")
    hand.say(*("x" for _ in range(300)))
    first.read_until(b"id: 302\n")

    late = Client(hub, run, cursor=1)
    late.read_until(b"id: 302\n")
    eventually(lambda: len(hub.run_feed(*run)._live) == 2)
    hand.finish()

    assert events(late.read_all())[-2:] == [303, 304]
    assert len(hub.run_feed(*run)._ring) <= 4


def test_withdrawn_numbers_are_passed_over(hub: Hub, run, journal) -> None:
    hand = Hand(journal, run[0])
    hand.say("lost", "too")
    journal.loop.run(hand.writer.withdraw("msg_1"))
    journal.loop.run(journal.hot_log.detach(run[0]))  # what was withdrawn is nowhere now
    client = Client(hub, run)

    data = client.read_until(b"id: 5\n\n")

    assert events(data) == [1, 2, 5]


def test_a_viewer_ahead_of_the_feed_gets_nothing_twice(hub: Hub, run, journal) -> None:
    hand = Hand(journal, run[0])
    first = Client(hub, run)
    first.read_until(b"id: 2\n")
    ahead = Client(hub, run, cursor=5)
    eventually(lambda: len(hub.viewers) == 2)

    hand.say(*"abcdef")
    hand.finish("abcdef")

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
    hand = Hand(journal, run[0])
    hand.say(*hostile)
    hand.finish("".join(hostile))

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
    monkeypatch.setattr(hub_module, "STUCK_S", 0.3)
    monkeypatch.setattr(hub_module, "LOOK_S", 0.05)
    hand = Hand(journal, run[0])
    stopped, good = Client(hub, run, receive_bytes=4096), Client(hub, run)
    for client in (stopped, good):
        client.read_until(b"id: 2\n")
    eventually(lambda: len(hub.run_feed(*run)._live) == 2)

    received: list[bytes] = []
    reading = threading.Thread(target=lambda: received.append(good.read_all()))
    reading.start()
    for _ in range(40):
        hand.say("y" * 10_000)
    eventually(lambda: stopped.viewer not in hub.viewers)
    hand.finish("y")
    reading.join()

    assert events(received[0])[-1] == 44
    cursor = ([2, *events(stopped.read_all())])[-1] - 1  # the last one may have come in part
    assert events(Client(hub, run, cursor=cursor).read_all()) == list(range(cursor + 1, 45))


def test_a_slow_viewer_holds_little_and_catches_up(hub: Hub, run, journal) -> None:
    hand = Hand(journal, run[0])
    slow = Client(hub, run, receive_bytes=4096)
    data = slow.read_until(b"id: 2\n")
    eventually(lambda: len(hub.run_feed(*run)._live) == 1)

    for _ in range(100):
        hand.say("z" * 10_000)
    eventually(lambda: bool(slow.viewer.stuck_since))
    assert slow.viewer.transport.get_write_buffer_size() < 400_000
    hand.finish("z")
    data += slow.read_all()

    assert events(data) == list(range(1, 105))


def test_a_feed_nobody_watches_stops(hub: Hub, run, journal, monkeypatch) -> None:
    monkeypatch.setattr(run_module, "LINGER_S", 0.01)
    Hand(journal, run[0])
    client = Client(hub, run)
    client.read_until(b"id: 2\n")
    eventually(lambda: run[0] in journal.hot_log._listeners)

    client.ours.close()

    eventually(lambda: run[0] not in journal.hot_log._listeners)
    assert not hub.viewers


def test_everybody_is_kept_awake(hub: Hub, run, journal, monkeypatch) -> None:
    monkeypatch.setattr(hub_module, "BEAT_S", 0.02)
    Hand(journal, run[0])

    data = Client(hub, run).read_until(b"\n\n:\n:\n")

    assert data.startswith(RETRY)


def test_a_client_that_chatters_is_no_viewer(hub: Hub, run, journal) -> None:
    Hand(journal, run[0])
    client = Client(hub, run)
    client.read_until(b"id: 2\n")

    client.ours.sendall(b"x" * 5000)

    eventually(lambda: not hub.viewers)


def test_the_server_keeps_a_socket_that_is_closed_already() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    browser = socket.create_connection(listener.getsockname())
    lent, _ = listener.accept()

    ours = take_over(lent)
    began = time.monotonic()
    lent.settimeout(5)
    assert lent.recv(10) == b""
    lent.close()
    ours.sendall(b"hello")

    assert browser.recv(10) == b"hello"
    assert time.monotonic() - began < 4
    for each in (ours, browser, listener):
        each.close()


def test_an_end_that_fills_a_viewers_buffer_closes_its_stream_all_the_same(hub: Hub, run, journal) -> None:
    hand = Hand(journal, run[0])
    client = Client(hub, run, receive_bytes=4096)
    client.read_until(b"id: 2\n")
    eventually(lambda: len(hub.run_feed(*run)._live) == 1)

    hand.finish("x" * 500_000)
    eventually(lambda: client.viewer.stuck_since > 0)
    data = client.read_all()

    assert data.count(b"event: end\n") == 1
    assert events(data)[-1] == 4


def test_viewers_that_come_one_after_another_share_a_large_page(hub: Hub, run, journal) -> None:
    Hand(journal, run[0]).finish("x" * 1_500_000)
    clients = []
    for _ in range(10):
        clients.append(Client(hub, run, receive_bytes=4096))
        clients[-1].read_until(b"id: 3\n")
    eventually(lambda: all(client.viewer.stuck_since for client in clients))

    assert 1_500_000 < hub.backlog.size < 2 * 1_600_000, "one page, held by ten"
    seen = {client.read_all()[-100:] for client in clients}
    eventually(lambda: not hub.viewers)
    assert len(seen) == 1
    assert hub.backlog.size == 0


def test_viewers_behind_with_more_than_the_budget_are_dropped_and_come_back(hub: Hub, runner, journal) -> None:
    hub.backlog = Backlog(max_bytes=4_000_000)
    runs = [accept(runner, f"{number}") for number in range(4)]
    clients = []
    for run_id in runs:
        Hand(journal, run_id).finish("x" * 1_500_000)
        clients.append(Client(hub, (run_id, runner.handle(run_id).thread_id), receive_bytes=4096))
        eventually(lambda: clients[-1].viewer.stuck_since > 0)

    eventually(lambda: clients[0].viewer.is_gone)
    assert hub.backlog.size <= 4_000_000
    assert b"event: end\n" not in clients[0].read_all()
    again = Client(hub, (runs[0], runner.handle(runs[0]).thread_id))
    assert again.read_all().count(b"event: end\n") == 1
    for client in clients[1:]:
        client.ours.close()
