"""The same server on a thread: clients that wait hold no thread, streams are handed off, and it ends on request."""

from __future__ import annotations

import errno
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from flask import Flask

from agents.runner import Runner
from config.database.timeouts import left_s
from config.settings import Settings
from tests.processes import no_free_file
from tests.web.conftest import RunOwner, accept
from web import gunicorn_conf
from web.page_files import page_files
from web.server.in_process import InProcessServer
from web.server.sockets import ClientSocket

pytestmark = pytest.mark.parity

HALF = b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server_socket:
        yield server_socket


@pytest.fixture
def server(app: Flask, listener: socket.socket) -> Iterator[InProcessServer]:
    in_process_server = InProcessServer(listener, app)
    in_process_server.start()
    yield in_process_server
    in_process_server.stop()


@pytest.fixture
def port(server: InProcessServer, listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def say(port: int, data: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), 10)
    client.sendall(data)
    return client


def get(port: int, path: str) -> bytes:
    with say(port, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()) as client:
        data = b""
        while piece := client.recv(65536):
            data += piece
        return data


def test_half_open_clients_hold_no_thread(port: int) -> None:
    before = threading.active_count()
    with ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(say(port, HALF))
        answer = get(port, "/health")
        during = threading.active_count()

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert during <= before + 22, "its own twenty and some of the journal's"


def test_a_request_that_waited_too_long_for_a_thread_is_refused(app: Flask, server: InProcessServer, port: int) -> None:
    server._worker.request_s = 0.2
    busy, over = threading.Semaphore(0), threading.Event()

    def block() -> str:
        busy.release()
        over.wait(30)
        return "done"

    app.add_url_rule("/block", view_func=block)
    request = b"GET /block HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with ExitStack() as stack:
        blocked = [stack.enter_context(say(port, request)) for _ in range(gunicorn_conf.threads)]
        for _ in blocked:
            assert busy.acquire(timeout=20)
        late = stack.enter_context(say(port, request))
        threading.Timer(0.5, over.set).start()
        answer = late.recv(65536)

        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nRetry-After: " in answer
        assert all(client.recv(65536).startswith(b"HTTP/1.1 200 ") for client in blocked)
    assert get(port, "/health").startswith(b"HTTP/1.1 200 ")


def test_a_request_has_so_much_time_in_every_server(app: Flask, settings: Settings) -> None:
    app.add_url_rule("/left", view_func=lambda: str(left_s()))

    assert 0 < float(app.test_client().get("/left").text) <= settings.request_timeout_s


def test_the_time_that_is_left_of_a_request_is_what_the_wait_for_a_thread_left(
    app: Flask, server: InProcessServer, port: int
) -> None:
    server._worker.request_s = 20.0
    app.add_url_rule("/left", view_func=lambda: str(left_s()))
    request = b"GET /left HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

    with say(port, request) as client:
        answer = b"".join(iter(lambda: client.recv(65536), b""))

    assert 0 < float(answer.rpartition(b"\r\n")[2]) < 20


def test_the_time_of_a_request_begins_when_the_one_before_it_is_answered(
    app: Flask, server: InProcessServer, port: int
) -> None:
    server._worker.request_s = 0.2

    def slow() -> str:
        threading.Event().wait(0.3)
        return "slow"

    app.add_url_rule("/slow", view_func=slow)
    first = b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

    with say(port, first + last) as client:
        answers = b"".join(iter(lambda: client.recv(65536), b""))

    assert answers.count(b"HTTP/1.1 200 ") == 2


def test_a_client_that_is_gone_when_it_is_accepted_ends_itself_alone(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = [OSError(errno.EINVAL, "Invalid argument")]  # as macOS answers for a client that has reset

    def setsockopt(self: ClientSocket, *args: Any) -> None:
        if error:
            raise error.pop()
        socket.socket.setsockopt(self, *args)

    monkeypatch.setattr(ClientSocket, "setsockopt", setsockopt)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        server = InProcessServer(listener, app)
        server.start()
        with say(port, b"") as gone:
            assert gone.recv(1) == b""
        answer = get(port, "/health")
        server.stop()

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert not error
    assert server._worker.nr_conns == 0


def test_a_stream_is_handed_off_and_read_to_its_end(port: int, runner, journal) -> None:
    run_id = accept(runner)
    RunOwner(journal, run_id).finish("whole")

    assert get(port, f"/v1/runs/{run_id}/events").count(b"event: end\n") == 1


def test_it_ends_when_stopped_and_leaves_the_socket_to_its_owner(app: Flask) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = InProcessServer(listener, app)
        server.start()
        assert get(listener.getsockname()[1], "/health").startswith(b"HTTP/1.1 200 ")
        server.stop()

        assert not server._thread.is_alive()
        assert listener.fileno() >= 0


ORPHAN = """
import os, socket, sys
from web.server.sockets import ClientSocket
from web.server.in_process import InProcessServer

def app(environ, start_response):
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]

served, serves = os.pipe()
if os.fork():
    os.close(serves)
    os.read(served, 1)
    os._exit(0)
with socket.socket(fileno=int(sys.argv[1])) as listener:
    server = InProcessServer(listener, app)
    server.start()
    os.write(serves, b"x")
    sys.stdin.read()
    server.stop()
"""


def test_it_serves_on_when_the_process_that_started_it_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port, number = listener.getsockname()[1], listener.fileno()
        shell = subprocess.Popen(
            [sys.executable, "-c", ORPHAN, str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[number],
        )
        with shell:
            assert shell.wait(30) == 0  # what it forked serves on
            answers = [get(port, "/") for _ in range(3)]  # each wakes its loop, which looks at the parent then
            shell.communicate(timeout=30)  # returns when the server's end of the pipe is closed

    assert all(answer.endswith(b"ok") for answer in answers)


@pytest.mark.parametrize("path", ["/v1/runs/{run}/events", "/v1/events", "/static/app.js"])
def test_a_process_without_a_free_file_answers_503(
    port: int, runner: Runner, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = accept(runner)
    page_files.cache_clear()  # else the page's files are in memory, and are served
    ask = f"GET {path.format(run=run_id)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    with say(port, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n") as client:
        assert b"200 OK" in client.recv(65536)

        with no_free_file():
            client.sendall(ask)
            refused = client.recv(65536)

    assert b" 503 " in refused
    assert b"overloaded" in refused
    assert b"Retry-After" in refused
    assert not [record for record in caplog.records if record.exc_info]
    with say(port, ask) as client:
        assert b"200 OK" in client.recv(65536)
