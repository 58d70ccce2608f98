"""Viewers that stop reading in a stream: they cost little, are dropped, come back, and slow no other down."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from config.database.migrate import migrate
from config.settings import Settings
from tests.app_harness import write_agent
from tests.fleet import Worker
from tests.journeys.web_server import Watching, Web
from tests.model_server import ModelServer, Turn
from tests.ports import free_port

pytestmark = [pytest.mark.journey, pytest.mark.timeout(120)]

VIEWERS = 20
PIECES = [f"{number:04} {'x' * 2000} " for number in range(1000)]
PACE = 300.0
"""Pieces a second: two megabytes in some seconds, more than any socket holds."""
DROPPED_S = 15.0
MIB = 1024 * 1024


@pytest.fixture
def web(redis_settings: Settings, tmp_path: Path) -> Iterator[Web]:
    port = free_port()
    (tmp_path / "state").mkdir()
    chosen = redis_settings.model_copy(update={"agents_dir": str(tmp_path / "agents"), "port": port})
    migrate(chosen)
    with ModelServer() as model:
        write_agent(tmp_path / "agents", model)
        model.respond = lambda _: Turn(text=PIECES, pace=PACE)
        with Web(chosen) as server, Worker(chosen, log=chosen.state / "worker.log"):
            yield server


class Stopped:
    """A viewer whose machine sleeps: the connection stays, and nothing is read from it."""

    def __init__(self, web: Web, run_id: str) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._socket.connect(("127.0.0.1", web.settings.port))
        self._socket.sendall(f"GET /v1/runs/{run_id}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        self.address = self._socket.getsockname()
        self.seen = self._read_a_little()

    def _read_a_little(self) -> int:
        """Return the number of the last event that came whole."""
        data = b""
        while not (numbers := re.findall(rb"id: (\d+)\n\n", data)):
            data += self._socket.recv(4096)
        return int(numbers[-1])


def gunicorn_of(web: Web) -> psutil.Process:
    """Return the process that serves, which is a child of the one that was started."""
    return psutil.Process(web.process.pid).children()[0]


def connected(process: psutil.Process, viewers: list[Stopped]) -> int:
    """Return how many of the viewers the process still has."""
    theirs = {viewer.address for viewer in viewers}
    return sum(tuple(connection.raddr) in theirs for connection in process.net_connections("tcp"))


def test_viewers_that_stop_reading_cost_little_and_slow_no_other_down(web: Web) -> None:
    serving = gunicorn_of(web)
    hello = {"agent": "tester", "input": "Hello"}
    alone = Watching(web, web.ask("/v1/runs", hello)[2]["run_id"]).to_the_end()
    before = serving.memory_info().rss

    run_id = web.ask("/v1/runs", hello)[2]["run_id"]
    good = Watching(web, run_id)
    stopped = [Stopped(web, run_id) for _ in range(VIEWERS)]
    most = before
    while good.events[-1]["type"] != "end":
        most = max(most, serving.memory_info().rss)
        time.sleep(0.2)  # another process; this is how often it is looked at
    ended_s = time.monotonic()
    while connected(serving, stopped) and time.monotonic() < ended_s + DROPPED_S:
        time.sleep(0.2)
    dropped_s = time.monotonic() - ended_s

    durations = [seen[-1]["duration_ms"] for seen in (alone, good.events)]
    print(
        f"{VIEWERS} stopped viewers: {(most - before) / VIEWERS / MIB:.2f} MiB each, all dropped {dropped_s:.1f} s "
        f"after the end; the run took {durations[1]} ms, alone {durations[0]} ms ({durations[1] / durations[0]:.3f}x)"
    )
    assert connected(serving, stopped) == 0
    assert most - before < VIEWERS * MIB
    assert durations[1] <= durations[0] * 1.5, "one that waited for a stopped viewer would not end at all"

    rest = web.events(run_id, stopped[0].seen)
    assert [event["seq"] for event in rest] == [e["seq"] for e in good.events if e["seq"] > stopped[0].seen]
    assert rest[-1]["output"] == "".join(PIECES)
