"""Following a stream: what is resumed, what is an error, and where it ends."""

from __future__ import annotations

import itertools
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from callboard_client import EndEvent, RequestRefused, RunHandle, Timeouts, UnexpectedAnswer, Unreachable
from tests.certificates import Authority, Pair
from tests.clients.python.blocking import KINDS, client_of
from tests.clients.python.scripted_server import LOST, Answer, ScriptedServer

pytestmark = pytest.mark.parity

PATIENT = Timeouts(retry_s=3600, resume_s=3600)
STREAM = {"Content-Type": "text/event-stream"}


@pytest.fixture(autouse=True)
def quick_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callboard_client.retrying.FIRST_PAUSE_S", 0.01)


def frames(*numbers: int, end: int | None = None) -> bytes:
    """Return the frames of a stream; ``end`` is the number of the run's end."""
    events = [(number, "response", {"content": f"{number} "}) for number in numbers]
    events += [(end, "end", {"status": "succeeded"})] if end else []
    lines = [
        f"event: {kind}\ndata: {json.dumps({'seq': number, 'type': kind, **more})}\nid: {number}\n\n"
        for number, kind, more in events
    ]
    return ("retry: 2000\n" + "".join(lines)).encode()


def stream(*numbers: int, end: int | None = None, **more: Any) -> Answer:
    return Answer(body=frames(*numbers, end=end), headers=STREAM, **more)


BUSY = Answer(status=503, body={"code": "overloaded", "detail": "Full."}, headers={"Retry-After": "0"})
REVOKED = Answer(status=401, body={"code": "unauthorized", "detail": "The key was revoked."})
ACCEPTED = Answer(status=202, body={"run_id": "run_1", "thread_id": "sums", "status": "queued"})
QUICK = Timeouts(retry_s=5, resume_s=5)


@contextmanager
def followed(kind: str, *answers: Answer, timeouts: Timeouts = QUICK) -> Iterator[tuple[RunHandle, ScriptedServer]]:
    """Yield a run's handle; the server gives these answers to the requests for its stream."""
    with (
        ScriptedServer(ACCEPTED, *answers) as server,
        client_of(kind, server.address, "cbk_1", timeouts=timeouts) as callboard,
    ):
        yield callboard.run("assistant", "Hello"), server


def cursors(server: ScriptedServer) -> list[str]:
    return [request.headers["last-event-id"] for request in server.requests[1:]]


FAILURES = {
    "lost": LOST,
    "no room": BUSY,
    "a proxy without its server": Answer(status=502, body=b"<h1>Bad gateway</h1>"),
    "an empty stream": Answer(body=b"", headers=STREAM),
    "blocks without an event": Answer(body=b"retry: 2000\n\n:\n\nid: 2\n\n", headers=STREAM),
    "half a frame": Answer(body=frames(3)[:-9], headers=STREAM),
    "a truncated frame that is dispatched": Answer(body=frames(3)[:-20] + b"\n\n", headers=STREAM),
    "what was sent before": stream(1, 2),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_is_resumed_behind_the_last_event(kind: str, failure: str) -> None:
    with followed(kind, stream(1, 2), FAILURES[failure], FAILURES[failure], stream(3, end=4)) as (handle, server):
        numbers = [event.seq for event in handle.events()]

    assert numbers == [1, 2, 3, 4]
    assert cursors(server) == ["0", "2", "2", "2"]
    assert [request.headers["authorization"] for request in server.requests] == ["Bearer cbk_1"] * 5


@pytest.mark.parametrize("kind", KINDS)
def test_a_failure_before_the_first_event_is_resumed_as_well(kind: str) -> None:
    with followed(kind, BUSY, LOST, stream(1, end=2)) as (handle, _):
        assert [event.seq for event in handle.events()] == [1, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_that_was_open_is_resumed_for_longer_than_a_request_is_repeated(kind: str) -> None:
    impatient = Timeouts(retry_s=0, resume_s=5)
    with followed(kind, stream(1), LOST, BUSY, stream(end=2), timeouts=impatient) as (handle, _):
        assert [event.seq for event in handle.events()] == [1, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_a_connection_that_brought_something_is_resumed_at_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(seconds: float) -> None:
        raise AssertionError("a pause")

    module = {"plain": "synchronous", "async": "asynchronous"}[kind]
    monkeypatch.setattr(f"callboard_client.{module}.transport.pause", refuse)

    with followed(kind, stream(1), stream(2), stream(end=3)) as (handle, _):
        assert [event.seq for event in handle.events()] == [1, 2, 3]


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_without_a_sign_of_life_is_resumed(kind: str) -> None:
    impatient = Timeouts(idle_s=0.2)
    with followed(kind, stream(1, stays_open=True), stream(end=2), timeouts=impatient) as (handle, server):
        assert [event.seq for event in handle.events()] == [1, 2]

    assert cursors(server) == ["0", "1"]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_follows_the_end(kind: str) -> None:
    with followed(kind, Answer(status=204)) as (handle, server):
        assert list(handle.events(after=7)) == []

    assert cursors(server) == ["7"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_behind_the_end_is_not_read(kind: str) -> None:
    with followed(kind, Answer(body=frames(end=1) + frames(2), headers=STREAM)) as (handle, server):
        assert [event.seq for event in handle.events()] == [1]

    assert len(server.requests) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_is_revoked_meanwhile_ends_the_stream_with_its_error(kind: str) -> None:
    seen: list[int] = []
    with followed(kind, stream(1), REVOKED) as (handle, _), pytest.raises(RequestRefused) as raised:
        seen.extend(event.seq for event in handle.events())

    assert (raised.value.status, raised.value.code) == (401, "unauthorized")


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_of_something_else_is_no_stream(kind: str) -> None:
    page = Answer(body=b"<html>Sign in</html>", headers={"Content-Type": "text/html"})
    with followed(kind, page) as (handle, _), pytest.raises(UnexpectedAnswer, match=r"instead of a stream .*text/html"):
        list(handle.events())


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_stays_away_is_an_error_after_the_time_that_was_set(kind: str) -> None:
    impatient = Timeouts(retry_s=5, resume_s=0.3)
    with followed(kind, stream(1), LOST, timeouts=impatient) as (handle, _):
        events = handle.events()
        assert next(iter(events)).seq == 1

        with pytest.raises(Unreachable, match="does not answer"):
            next(iter(events))


@pytest.mark.parametrize("kind", KINDS)
def test_the_result_is_the_end_and_is_kept(kind: str) -> None:
    with followed(kind, stream(1, 2), stream(3, end=4)) as (handle, server):
        end = handle.result()
        again = handle.result()

    assert isinstance(end, EndEvent)
    assert (end.seq, end.status) == (4, "succeeded")
    assert again == end
    assert cursors(server) == ["0", "2"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_result_reads_on_where_the_events_were_left(kind: str) -> None:
    with followed(kind, stream(1, 2, stays_open=True), stream(end=3)) as (handle, server):
        seen = list(itertools.islice(handle.events(), 2))
        end = handle.result()

    assert ([event.seq for event in seen], end.seq) == ([1, 2], 3)
    assert cursors(server) == ["0", "2"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "answers", [[stream(1, stays_open=True)], [LOST], [stream(1), BUSY]], ids=["open", "lost", "busy"]
)
def test_a_result_that_takes_too_long_is_a_timeout(kind: str, answers: list[Answer]) -> None:
    with followed(kind, *answers, timeouts=PATIENT) as (handle, _), pytest.raises(TimeoutError, match="it continues"):
        handle.result(timeout_s=0.3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_signs_of_life_do_not_extend_the_time_of_a_result(kind: str, scheme: str, tmp_path: Path) -> None:
    """The server's comments arrive more often than the limit of one read."""
    authority = Authority(tmp_path)
    trusting = ssl.create_default_context(cafile=str(authority.certificate))
    http_client: Any = {"plain": httpx.Client, "async": httpx.AsyncClient}[kind](verify=trusting)
    with (
        BeatingServer(authority.issue("server") if scheme == "https" else None) as address,
        client_of(kind, address, http_client=http_client) as callboard,
        pytest.raises(TimeoutError, match="it continues"),
    ):
        list(callboard._transport.follow("run_1", 0, 0.5))


class BeatingServer:
    """Sends a comment each tenth of a second, and no event, on its one connection."""

    def __init__(self, pair: Pair | None) -> None:
        """``pair``: what the server speaks TLS with."""
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if pair else None
        if pair and self._tls:
            self._tls.load_cert_chain(pair.certificate, pair.key)

    def __enter__(self) -> str:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._listening.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(10)
        self._listening.close()

    def _serve(self) -> None:
        connection, _ = self._listening.accept()
        if self._tls:
            connection = self._tls.wrap_socket(connection, server_side=True)
        with connection, suppress(OSError):
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            while not self._is_over.wait(0.1):
                connection.sendall(b":\n")
