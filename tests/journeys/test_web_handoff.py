"""Streams leave the threads of a real gunicorn: more viewers than threads, and nothing in its log."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from config.database.migrate import migrate
from config.settings import Settings
from tests.ports import free_port

pytestmark = pytest.mark.journey

ROOT = Path(__file__).parents[2]
VIEWERS = 60
AGENT = "name: Assistant\nmodel: demo/assistant\nsystem_prompt: You answer.\n"


@dataclass
class Web:
    """A web process on a port of its own."""

    port: int
    child: subprocess.Popen[bytes]
    log: Path

    def call(self, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read())

    def view(self, path: str, *, version: str = "1.1") -> socket.socket:
        viewer = socket.create_connection(("127.0.0.1", self.port), 10)
        viewer.settimeout(10)
        viewer.sendall(f"GET {path} HTTP/{version}\r\nHost: localhost:{self.port}\r\n\r\n".encode())
        return viewer

    @property
    def worker(self) -> psutil.Process:
        return psutil.Process(self.child.pid).children()[0]


@pytest.fixture
def web(redis_settings: Settings, tmp_path: Path) -> Iterator[Web]:
    migrate(redis_settings)
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "assistant.yaml").write_text(AGENT)
    port = free_port()
    chosen = {
        "CALLBOARD_REDIS_URL": str(redis_settings.redis_url),
        "CALLBOARD_DATABASE_URL": redis_settings.database,
        "CALLBOARD_DEPLOYMENT": redis_settings.deployment,
        "CALLBOARD_STATE_DIR": str(redis_settings.state_dir),
        "CALLBOARD_AGENTS_DIR": str(tmp_path / "agents"),
        "CALLBOARD_PORT": str(port),
        "PYTHONPATH": str(ROOT),
    }
    log = tmp_path / "web.log"
    command = [sys.executable, "-P", "-m", "gunicorn", "--config", "web/gunicorn_conf.py", "web.app:create_app()"]
    with log.open("wb") as out:
        child = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **chosen}, stdout=out, stderr=out)
    server = Web(port, child, log)
    wait_until_ready(server)
    yield server
    child.send_signal(signal.SIGTERM)
    child.wait(10)


def wait_until_ready(web: Web) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            web.call("/health")
            return
        except OSError:
            assert time.monotonic() < deadline, web.log.read_text()
            time.sleep(0.05)


def read_until(viewer: socket.socket, mark: bytes) -> bytes:
    data = b""
    while mark not in data:
        piece = viewer.recv(65536)
        if not piece:
            break
        data += piece
    return data


def test_more_viewers_than_threads_see_the_same_and_the_server_stays_free(web: Web) -> None:
    accepted = web.call("/v1/runs", {"agent": "assistant", "input": "Hello"})
    viewers = [web.view(accepted["events_url"]) for _ in range(VIEWERS)]
    seen = [read_until(viewer, b"event: status\n") for viewer in viewers]

    assert web.call("/health")["viewers"] == VIEWERS
    assert web.call(f"/v1/runs/{accepted['run_id']}/cancel", {})["status"] == "cancelled"
    whole = [
        (first + read_until(viewer, b"never")).partition(b"\r\n\r\n")
        for first, viewer in zip(seen, viewers, strict=True)
    ]

    assert len({body for _, _, body in whole}) == 1
    assert whole[0][2].count(b"event: end\n") == 1
    assert b"Connection: close" in whole[0][0]
    assert web.call("/health")["viewers"] == 0
    for viewer in viewers:
        viewer.close()
    assert "ERROR" not in web.log.read_text()
    assert "Traceback" not in web.log.read_text()


def test_viewers_that_left_leave_nothing_behind(web: Web) -> None:
    accepted = web.call("/v1/runs", {"agent": "assistant", "input": "Hello"})
    for _ in range(2):
        before = web.worker.num_fds()
        viewers = [web.view(accepted["events_url"], version="1.0") for _ in range(VIEWERS)]
        for viewer in viewers:
            read_until(viewer, b"event: status\n")
            viewer.close()
        deadline = time.monotonic() + 10
        while web.call("/health")["viewers"]:
            assert time.monotonic() < deadline

    # What stays is connections kept alive, and those of the database pool, three descriptors each.
    assert web.worker.num_fds() < before + VIEWERS // 2


def test_a_process_that_is_asked_to_stop_lets_its_viewers_go(web: Web) -> None:
    viewer = web.view("/v1/events")
    read_until(viewer, b"event: snapshot\n")

    web.child.send_signal(signal.SIGTERM)

    read_until(viewer, b"never")
    viewer.close()
    assert web.child.wait(10) == 0
