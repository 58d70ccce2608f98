"""The stream of a real web process, cut off behind every byte: each event arrives, and once."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from agents.runner import Runner
from callboard_client import Event, Timeouts, UnknownEvent
from tests.clients.python.blocking import KINDS, client_of
from tests.clients.python.cutting_proxy import CuttingProxy, Source, server_at
from tests.examples import is_long
from tests.journeys.web_server import Web
from tests.web.conftest import RunOwner, furnish_served, opened

pytestmark = [pytest.mark.parity, pytest.mark.timeout(3600)]

EVENTS = 500
STRIDE = 2003
"""The whole stream is cut off behind every so manieth byte: a prime, so that places in the frames differ."""
LAST = 4
"""Events that are cut off behind every byte without ``--long``: text, text, the message and the end."""
PATIENT = Timeouts(retry_s=3600, resume_s=3600)
LAST_EVENT_ID = re.compile(rb"last-event-id: (\d+)", re.IGNORECASE)
Cut = Callable[[bytes], int | None]


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callboard_client.retrying.FIRST_PAUSE_S", 0.0)


class Recorded:
    """A run of 500 events on a real web process, and its stream byte by byte."""

    def __init__(self, web: Web, run_id: str) -> None:
        self.web = web
        self.run_id = run_id
        self.answer = self._read()

    @property
    def port(self) -> int:
        return self.web.settings.port

    def _read(self) -> bytes:
        """Return the whole answer to a request for the stream, with its head."""
        request = f"GET /v1/runs/{self.run_id}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(request.encode())
            return b"".join(iter(lambda: connection.recv(65536), b""))

    def replayed(self, request: bytes) -> Generator[bytes]:
        """Answer a request with what the web process sent, as it does: the same head, the frames behind the cursor."""
        match = LAST_EVENT_ID.search(request)
        offset = self.behind(int(match[1]) if match else 0)
        yield self.answer[: self.head] + self.answer[offset:]

    @property
    def head(self) -> int:
        """How many bytes precede the first frame; they are the same in each answer."""
        return self.answer.index(b"event: ")

    def behind(self, number: int) -> int:
        """Return where the frames behind an event begin."""
        last_line = b"\nid: %d\n\n" % number
        return self.answer.index(last_line) + len(last_line) if number else self.head

    def whole(self) -> list[Event]:
        """Return the events that a client sees without a proxy."""
        with client_of("plain", self.web.address) as callboard:
            return list(callboard.handle(self.run_id).events())


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, empty_database: Path) -> Iterator[Recorded]:
    folder = tmp_path_factory.mktemp("recorded")
    with opened(furnish_served(folder, empty_database)) as runner:
        run_id = spoken(runner)
        with Web(runner.settings) as web:
            yield Recorded(web, run_id)


def spoken(runner: Runner) -> str:
    """Return an ended run of ``EVENTS`` events, with text of one to four bytes a character."""
    run_id = runner.run("Hello", "assistant").run_id
    owner = RunOwner(runner.journal, run_id)
    owner.say(*(f"{number}: é→🎭\u2028\n " for number in range(EVENTS - 4)))
    owner.finish()
    return run_id


def test_the_recorded_stream_is_of_the_promised_size(recorded: Recorded) -> None:
    events = recorded.whole()

    assert [event.seq for event in events] == list(range(1, EVENTS + 1))
    assert not any(isinstance(event, UnknownEvent) for event in events)


def followed(kind: str, recorded: Recorded, source: Source, cut: Cut, after: int = 0) -> tuple[list[Event], int]:
    """Return the events that a client sees behind the proxy, and how many connections it needed."""
    with CuttingProxy(source, cut) as proxy, client_of(kind, proxy.address, timeouts=PATIENT) as callboard:
        return list(callboard._transport.follow(recorded.run_id, after)), proxy.connections


class CutOnce:
    """Cuts the first connection off, and no other."""

    def __init__(self, cut: int) -> None:
        self._cuts = iter([cut])

    def __call__(self, request: bytes) -> int | None:
        return next(self._cuts, None)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_whole_stream_cut_off_somewhere_is_followed_to_its_end(kind: str, recorded: Recorded) -> None:
    whole = recorded.whole()

    for cut in range(0, len(recorded.answer), STRIDE):
        events, connections = followed(kind, recorded, server_at(recorded.port), CutOnce(cut))

        assert events == whole, f"cut off behind {recorded.answer[:cut][-40:]!r}"
        assert connections == 2


class EveryByte:
    """Cuts a stream off behind each of its bytes: one connection after the other, each a byte later than the last.

    A client that got an event resumes behind it: there the next frame's first byte follows.
    """

    def __init__(self, head: int) -> None:
        """``head``: the bytes before the first frame, which are the same in each answer."""
        self._head = head
        self._after = b""
        self._sent = 0
        self.bytes_cut = 0

    def __call__(self, request: bytes) -> int:
        match = LAST_EVENT_ID.search(request)
        assert match is not None
        if match[1] != self._after:
            self._sent = self._head if self._after else 0
            self._after = match[1]
        self._sent += 1
        self.bytes_cut += 1
        return self._sent


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_cut_off_behind_every_byte_is_followed_to_its_end(kind: str, recorded: Recorded) -> None:
    """With ``--long 1`` that is the whole stream, for some minutes; otherwise its last events."""
    whole = recorded.whole()
    first = 0 if is_long() else EVENTS - LAST

    began_s = time.monotonic()
    events, connections = followed(kind, recorded, recorded.replayed, EveryByte(recorded.head), after=first)
    took_s = time.monotonic() - began_s

    print(f"{kind}: {len(events)} events, {connections:,} connections cut off, {took_s:.0f} s")
    assert events == whole[first:]
    assert connections == recorded.head + len(recorded.answer) - recorded.behind(first)
