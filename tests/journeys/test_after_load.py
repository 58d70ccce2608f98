"""A worker that was busy for a while keeps neither the connections to its models nor the threads that it needed."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from agents.runner import Runner
from config.database.migrate import migrate
from config.settings import Settings
from tests.app_harness import AppHarness
from tests.fleet import Worker
from tests.model_server import ModelServer, Turn

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(300)]

RUNS = 60
MOST_OF_THEM = 45
WITHIN_S = 45.0
"""aiohttp looks every 15 s for connections that were idle for 15 s; threads end after as much."""


def connections(process: psutil.Process, port: int) -> int:
    return sum(bool(each.raddr) and each.raddr.port == port for each in process.net_connections("inet"))


def test_idle_connections_close_and_idle_threads_end(by_default: Settings, tmp_path: Path) -> None:
    settings = by_default.model_copy(update={"slots": RUNS})
    migrate(settings)
    with ModelServer() as model:
        model.respond = lambda body: Turn(text="Good day to you.", stall_after=2)
        runner = Runner.open(settings)
        harness = AppHarness(runner, model, tmp_path / "agents", "openai")
        harness.agent()
        with Worker(settings, log=settings.state / "worker.log") as worker:
            process = psutil.Process(worker.process.pid)
            handles = [harness.run("Hello", detached=True) for _ in range(RUNS)]
            assert model.wait_for_requests(RUNS, 60)
            busy = connections(process, model.port), process.num_threads()
            model.resume()
            assert [handle.result(120).status for handle in handles] == ["succeeded"] * RUNS

            ends, left = time.monotonic() + WITHIN_S, busy
            while (left[0] or left[1] > busy[1] - MOST_OF_THEM) and time.monotonic() < ends:
                time.sleep(0.5)  # another process; only its sockets and threads tell
                left = connections(process, model.port), process.num_threads()
        runner.close()

    assert busy[0] >= RUNS
    assert left[0] == 0
    assert left[1] <= busy[1] - MOST_OF_THEM
