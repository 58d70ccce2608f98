"""TLS on the poller: handshakes hold no thread, streams are handed off, and what is not TLS 1.3 is refused."""

from __future__ import annotations

import http.client
import json
import logging
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from flask import Flask, Response, request

from config.settings import settings as read_once
from tests.certificates import CLIENT, Authority, Pair
from tests.web.conftest import RunOwner, accept, eventually
from web.server import certificates
from web.server.in_process import InProcessServer

pytestmark = pytest.mark.parity

Serve = Callable[..., int]
GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def serve(app: Flask, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Return a function that serves the application over TLS, with further settings, and returns the port."""
    with ExitStack() as stack:

        def start(**settings: str) -> int:
            pair = authority.issue("server")
            chosen = {"tls_certificate": str(pair.certificate), "tls_key": str(pair.key), **settings}
            for name, value in chosen.items():
                monkeypatch.setenv(f"CALLBOARD_{name.upper()}", value)
            read_once.cache_clear()
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            server = InProcessServer(listener, app)
            server.start()
            stack.callback(server.stop)
            return int(listener.getsockname()[1])

        yield start
    read_once.cache_clear()


@pytest.fixture
def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority.certificate))


@pytest.fixture
def port(serve: Serve) -> int:
    return serve()


def connect(port: int, context: ssl.SSLContext) -> ssl.SSLSocket:
    """Return a connection that raises if the server cuts it off without ending the session."""
    plain = socket.create_connection(("127.0.0.1", port), 10)
    return context.wrap_socket(plain, server_hostname="localhost", suppress_ragged_eofs=False)


def read_all(client: socket.socket) -> bytes:
    data = b""
    while piece := client.recv(65536):
        data += piece
    return data


def read_until(client: socket.socket, mark: bytes) -> None:
    data = b""
    while mark not in data:
        data += client.recv(65536)


def status_over_tls(port: int, context: ssl.SSLContext) -> int:
    with closing(http.client.HTTPSConnection("localhost", port, context=context, timeout=10)) as connection:
        connection.request("GET", "/health")
        return connection.getresponse().status


def test_requests_share_a_connection_of_tls_1_3(port: int, trusting: ssl.SSLContext) -> None:
    with closing(http.client.HTTPSConnection("localhost", port, context=trusting, timeout=10)) as connection:
        for _ in range(3):
            connection.request("GET", "/health")
            answer = connection.getresponse()
            assert (answer.status, bool(answer.read())) == (200, True)

        assert isinstance(connection.sock, ssl.SSLSocket)
        assert connection.sock.version() == "TLSv1.3"


def test_requests_in_one_record_are_all_answered(port: int, trusting: ssl.SSLContext) -> None:
    last = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    with connect(port, trusting) as client:
        client.sendall(GET * 3 + last)

        assert read_all(client).count(b"HTTP/1.1 200 ") == 4


def test_the_scheme_is_https(app: Flask, serve: Serve, trusting: ssl.SSLContext) -> None:
    app.add_url_rule("/scheme", view_func=lambda: Response(request.environ["wsgi.url_scheme"]))
    with connect(serve(), trusting) as client:
        client.sendall(b"GET /scheme HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")

        assert read_all(client).endswith(b"\r\n\r\nhttps")


def test_large_bodies_arrive_both_ways(app: Flask, serve: Serve, trusting: ssl.SSLContext) -> None:
    app.add_url_rule("/echo", view_func=lambda: Response(request.get_data() * 4), methods=["POST"])
    body = os.urandom(1_900_000)
    port = serve()
    with closing(http.client.HTTPSConnection("localhost", port, context=trusting, timeout=30)) as connection:
        connection.request("POST", "/echo", body)

        assert connection.getresponse().read() == body * 4


def test_tls_1_2_is_refused_and_others_are_served(port: int, trusting: ssl.SSLContext, authority: Authority) -> None:
    old = ssl.create_default_context(cafile=str(authority.certificate))
    old.maximum_version = ssl.TLSVersion.TLSv1_2

    with pytest.raises(ssl.SSLError, match="TLSV1_ALERT_PROTOCOL_VERSION"):
        connect(port, old)

    assert status_over_tls(port, trusting) == 200


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PRI"])
def test_plain_http_is_answered_with_the_remedy(port: int, method: str) -> None:
    with socket.create_connection(("127.0.0.1", port), 10) as client:
        client.sendall(f"{method} / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n\r\n".encode())
        head, _, body = read_all(client).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 400 ")
    assert "https://" in json.loads(body)["detail"]


@pytest.mark.parametrize(
    "garbage", [b"\0" * 100, b"\x16\x03\x01" + b"\xff" * 200, b"\x16" * 5, b"\x80\x2e\x01", b"\x16\x03\x01\0\1\0"]
)
def test_garbage_ends_its_own_connection_only(
    port: int, trusting: ssl.SSLContext, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_connection(("127.0.0.1", port), 10) as client, caplog.at_level(logging.WARNING):
        client.sendall(garbage)
        client.shutdown(socket.SHUT_WR)
        assert not read_all(client).startswith(b"HTTP")

        assert status_over_tls(port, trusting) == 200
    assert not caplog.records


def hello(context: ssl.SSLContext) -> bytes:
    """Return the first message of a handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def test_unfinished_handshakes_hold_no_thread(port: int, trusting: ssl.SSLContext) -> None:
    begun = hello(trusting)
    before = threading.active_count()
    with ExitStack() as stack:
        for number in range(90):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port), 10))
            client.sendall((b"", begun[: len(begun) // 2], begun)[number % 3])

        assert status_over_tls(port, trusting) == 200
        assert threading.active_count() <= before + 22, "its own twenty and some of the journal's"


def test_a_handshake_has_a_time_limit(serve: Serve, trusting: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.server.worker.HEAD_S", 0.2)
    with socket.create_connection(("127.0.0.1", serve()), 10) as client:
        for byte in hello(trusting)[:50]:
            client.sendall(bytes([byte]))

        assert client.recv(10) == b""


def test_a_handshake_in_single_bytes_is_served(port: int, trusting: ssl.SSLContext) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = trusting.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection(("127.0.0.1", port), 10) as client:

        def step(do: Callable[[], object]) -> object:
            while True:
                try:
                    return do()
                except ssl.SSLWantReadError:
                    for byte in outgoing.read():
                        client.sendall(bytes([byte]))
                    incoming.write(client.recv(7))

        step(session.do_handshake)
        session.write(GET)
        answer = step(lambda: session.read(100))

    assert str(answer).startswith("b'HTTP/1.1 200 ")


def test_a_stream_is_handed_off_and_ends_with_its_session(port: int, trusting: ssl.SSLContext, runner, journal) -> None:
    run_id = accept(runner)
    owner = RunOwner(journal, run_id)
    ask = f"GET /v1/runs/{run_id}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    before = threading.active_count()
    with ExitStack() as stack:
        viewers = [stack.enter_context(connect(port, trusting)) for _ in range(40)]
        for viewer in viewers:
            viewer.sendall(ask)
            assert b"200 OK" in viewer.recv(65536)
        threads = threading.active_count() - before
        owner.say("whole ", "answer")
        owner.finish("whole answer")
        whole = [read_all(viewer) for viewer in viewers]

    assert threads < len(viewers), "no viewer has a thread; those of the server's pool may have started"
    assert all(data.count(b"event: end\n") == 1 for data in whole)


def test_a_viewer_that_leaves_is_forgotten(app: Flask, port: int, trusting: ssl.SSLContext) -> None:
    viewers = app.extensions["callboard"].hub.viewers
    with connect(port, trusting) as ending, connect(port, trusting) as cutting:
        for client in (ending, cutting):
            client.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            read_until(client, b"id: 1\n\n")
        assert len(viewers) == 2
        ending.unwrap()
    eventually(lambda: not viewers)


def test_bytes_of_a_viewer_that_are_no_tls_end_its_stream(app: Flask, port: int, trusting: ssl.SSLContext) -> None:
    with connect(port, trusting) as client:
        client.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        client.recv(65536)
        os.write(client.fileno(), b"\x17\x03\x03\0\x20" + b"x" * 32)

        eventually(lambda: not app.extensions["callboard"].hub.viewers)


# --- client certificates -----------------------------------------------------------------------------


def presenting(authority: Authority, pair: Pair | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if pair is not None:
        context.load_cert_chain(pair.certificate, pair.key)
    return context


def served(port: int, context: ssl.SSLContext) -> bool:
    try:
        return status_over_tls(port, context) == 200
    except (ssl.SSLError, ConnectionError):
        return False


@pytest.mark.parametrize("setting", ["required", "optional"])
def test_only_clients_of_the_authority_are_served(
    serve: Serve, authority: Authority, tmp_path: Path, setting: str
) -> None:
    port = serve(tls_client_ca=str(authority.certificate), tls_client_certificates=setting)
    stranger = Authority(tmp_path, "another")

    assert served(port, presenting(authority, authority.issue("billing", purpose=CLIENT)))
    assert served(port, presenting(authority, None)) is (setting == "optional")
    for pair in (
        stranger.issue("billing", purpose=CLIENT),
        authority.issue("late", purpose=CLIENT, days=-1),
        authority.issue("not-a-client"),
    ):
        assert not served(port, presenting(authority, pair)), pair.certificate


# --- renewal ------------------------------------------------------------------------------------------


def test_a_renewed_certificate_is_served_without_a_restart(
    serve: Serve, authority: Authority, trusting: ssl.SSLContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificates, "LOOK_S", 0.0)
    current, key = tmp_path / "server.pem", tmp_path / "server.key"
    first, second = authority.issue("first"), authority.issue("second")
    for source, target in ((first.certificate, current), (first.key, key)):
        target.write_bytes(source.read_bytes())
        target.chmod(0o600)
    port = serve(tls_certificate=str(current), tls_key=str(key))

    def served_name() -> str:
        with connect(port, trusting) as client:
            subject = (client.getpeercert() or {})["subject"]
        return str(subject[0][0][1])

    assert served_name() == "first"
    current.write_bytes(second.certificate.read_bytes())
    assert served_name() == "first", "its key is not there yet"
    key.write_bytes(second.key.read_bytes())
    assert served_name() == "second"
