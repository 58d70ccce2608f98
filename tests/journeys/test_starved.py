"""A worker that gets no time for seconds (its loop blocked, its interpreter held, itself stopped) loses no run."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agents.handle import RunHandle
from agents.runner import Runner
from config.database.migrate import migrate
from config.settings import Settings
from tests.app_harness import AppHarness
from tests.fleet import Worker
from tests.journeys.neighbour import read_until_it_speaks, run_row, step_rows
from tests.model_server import Call, ModelServer, Turn

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(300)]

TOOLS = "tools: ['tests.journeys.starving_tools:block_the_loop', 'tests.journeys.starving_tools:hold_the_interpreter']"
TIMES = 2
SPEAKS_S = 4.2
"""How long the model speaks before the first call: the next heartbeat is due soon, and the last one old."""


@pytest.fixture
def harness(by_default: Settings, tmp_path: Path) -> Iterator[AppHarness]:
    migrate(by_default)
    with ModelServer() as model:
        runner = Runner.open(by_default)
        app_harness = AppHarness(runner, model, tmp_path / "agents")
        app_harness.agent(TOOLS)
        yield app_harness
        runner.close()


@contextmanager
def worker(harness: AppHarness) -> Iterator[Worker]:
    with Worker(harness.settings, log=harness.settings.state / "worker.log") as started:
        yield started


def assert_nothing_was_lost(harness: AppHarness, handle: RunHandle) -> None:
    assert handle.result(120).status == "succeeded"
    row = run_row(harness, handle)
    assert (row.fence, row.crashes) == (1, 0)
    assert [step["status"] for step in step_rows(harness, handle)] == ["done"] * len(step_rows(harness, handle))
    log = (harness.settings.state / "worker.log").read_text()
    assert "is given up" not in log
    assert "was taken over" not in log


@pytest.mark.parametrize(("tool", "seconds"), [("block_the_loop", 8.0), ("hold_the_interpreter", 3.0)])
def test_a_tool_that_blocks_the_process_costs_no_run_its_owner(harness: AppHarness, tool: str, seconds: float) -> None:
    words = ["word "] * round(SPEAKS_S * 10)
    calls = [
        Turn(text=words, pace=10, calls=[Call(name=tool, arguments={"seconds": seconds}, id=f"call_{number}")])
        for number in range(TIMES)
    ]
    harness.model.script([*calls, Turn(text="done")], model="gpt-5-mini")
    with worker(harness):
        assert_nothing_was_lost(harness, harness.run("Take your time", detached=True))


def test_a_process_that_gets_no_time_for_five_seconds_keeps_its_runs(harness: AppHarness) -> None:
    harness.model.script([Turn(text=["word "] * 180, pace=10)])
    with worker(harness) as started:
        handle = harness.run("Hello", detached=True)
        read_until_it_speaks(handle)
        for _ in range(TIMES):
            started.process.send_signal(signal.SIGSTOP)
            time.sleep(5)  # the scenario
            started.process.send_signal(signal.SIGCONT)
            time.sleep(2)

        assert_nothing_was_lost(harness, handle)
