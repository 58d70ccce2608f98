"""The same server on a thread: clients that wait hold no thread, streams are handed off, and it ends when told."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from flask import Flask

from tests.web.conftest import Hand, accept
from web.server.in_process import InProcessServer

HALF = b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{"


@pytest.fixture
def port(app: Flask) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = InProcessServer(listener, app)
        server.start()
        yield listener.getsockname()[1]
        server.stop()


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
        answer = get(port, "/ready")
        during = threading.active_count()

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert during <= before + 22, "its own twenty and some of the journal's"


def test_a_stream_is_handed_off_and_read_to_its_end(port: int, runner, journal) -> None:
    run_id = accept(runner)
    Hand(journal, run_id).finish("whole")

    assert get(port, f"/v1/runs/{run_id}/events").count(b"event: end\n") == 1


def test_it_ends_when_told_and_leaves_the_socket_to_its_owner(app: Flask) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = InProcessServer(listener, app)
        server.start()
        assert get(listener.getsockname()[1], "/ready").startswith(b"HTTP/1.1 200 ")
        server.stop()

        assert not server._thread.is_alive()
        assert listener.fileno() >= 0
