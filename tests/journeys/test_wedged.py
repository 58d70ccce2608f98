"""A process that is killed or stuck, in whatever way, is started again; one that is only slow is not."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import psutil
import pytest

from config.folders import ROOT
from config.settings import Settings
from tests.app_harness import AppHarness
from tests.fleet import environment
from tests.journeys.up import Up
from tests.model_server import Call, Turn

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(240)]

SHORT = {"CALLBOARD_LEASE_S": "2", "CALLBOARD_BEAT_S": "0.5", "CALLBOARD_REAP_S": "0.5"}
"""Five seconds of silence are too many then (bus/liveness.py)."""


def workers_of(up: Up) -> list[psutil.Process]:
    """Return the processes of Celery, the one the supervisor started first."""
    childs = [child for child in up.children("celery") if "child.py" not in " ".join(child.cmdline())]
    return sorted(childs, key=lambda child: child.create_time())


@pytest.fixture(scope="class")
def supervised(fleet_settings: Settings, fleet_harness: AppHarness, request: pytest.FixtureRequest) -> Iterator[Up]:
    """`./callboard worker` with one process on the class's pool, ready; its tests share it, and leave it ready."""
    fleet_harness.agent()
    variables = {name: text for name, text in environment(fleet_settings).items() if name.startswith("CALLBOARD_")}
    flags = ("-n", "1", "--pool", request.cls.pool, "--slots", "2")
    with Up(fleet_settings.state, *flags, command="worker", **{**variables, **SHORT}) as up:
        up.wait_for("1 worker process is starting")
        up.wait_for("-1 is ready to take runs")
        up.wait_for(*request.cls.is_ready)
        yield up
        assert up.stop() == 0


class EachPool:
    """What holds on each pool."""

    pool: ClassVar[str]
    is_ready: ClassVar[tuple[str, int]] = ("ready.", 1)
    """What is said when a worker is ready, and how often."""

    def test_a_stopped_worker_is_found_and_a_new_one_takes_runs(
        self, supervised: Up, fleet_harness: AppHarness
    ) -> None:
        fleet_harness.model.respond = lambda body: Turn(text="Here.")
        before, line_count = {child.pid for child in workers_of(supervised)}, len(supervised.lines)

        workers_of(supervised)[0].suspend()

        supervised.wait_for("gave no sign of life for 5 s; it is ended and started again", after=line_count)
        supervised.wait_for(*self.is_ready, after=line_count)
        assert not before & {child.pid for child in workers_of(supervised)}
        assert fleet_harness.run("Hello?", detached=True).result(90).status == "succeeded"

    def test_a_killed_worker_comes_back(self, supervised: Up) -> None:
        before, line_count = [child.pid for child in workers_of(supervised)], len(supervised.lines)

        for pid in before:
            with contextlib.suppress(psutil.NoSuchProcess):  # the first one's group goes with it
                psutil.Process(pid).kill()

        supervised.wait_for("starting it again", after=line_count)
        supervised.wait_for(*self.is_ready, after=line_count)
        assert not set(before) & {child.pid for child in workers_of(supervised)}
        assert not any(psutil.pid_exists(pid) for pid in before)


class EachPoolWithLoops(EachPool):
    """What holds on each pool whose processes have a loop of their own, apart from Celery's thread."""

    ended: ClassVar[str]
    """What is said of a process that ended itself."""
    is_back: ClassVar[str]
    """What the one in its place says."""

    def test_a_tool_that_blocks_the_loop_is_named_and_its_process_replaced(
        self, supervised: Up, fleet_harness: AppHarness, tmp_path: Path
    ) -> None:
        fleet_harness.agent("tools: ['tests.agents.sample_tools:block_the_loop']", "blocking")
        call = Call(name="block_the_loop", arguments={"marker": str(tmp_path / "tried")})
        fleet_harness.model.respond = lambda body: (
            Turn(calls=[call]) if body["messages"][-1]["content"] == "Block." else Turn(text="Free again.")
        )
        already = len(supervised.lines)

        blocked = fleet_harness.run("Block.", "blocking", detached=True)

        line = supervised.wait_for("the event loop did not turn for 5 s", after=already)
        assert "CRITICAL" in line
        assert "in block_the_loop" in line
        assert "task='tool block_the_loop'" in line
        supervised.wait_for(self.ended, after=already)
        supervised.wait_for(self.is_back, after=already)
        assert fleet_harness.run("Hello?", detached=True).result(90).status == "succeeded"
        assert blocked.result(90).status == "succeeded"


class TestThreads(EachPoolWithLoops):
    pool = "threads"
    ended, is_back = "ended (status 75); starting it again", "ready."

    def test_a_supervisor_that_was_stopped_ends_no_child(self, supervised: Up) -> None:
        (worker,), line_count = workers_of(supervised), len(supervised.lines)

        supervised.process.send_signal(signal.SIGSTOP)
        time.sleep(8)  # longer than the silence that is too long: this is about time
        supervised.process.send_signal(signal.SIGCONT)

        time.sleep(3)  # time enough to be wrong
        assert [child.pid for child in workers_of(supervised)] == [worker.pid]
        assert not any("sign of life" in line for line in supervised.lines[line_count:])

    def test_a_worker_that_was_stopped_and_continued_in_time_is_left_alone(self, supervised: Up) -> None:
        (worker,) = workers_of(supervised)

        worker.suspend()
        time.sleep(2)  # shorter than the silence that is too long
        worker.resume()

        time.sleep(6)
        assert [child.pid for child in workers_of(supervised)] == [worker.pid]


class TestPrefork(EachPoolWithLoops):
    pool = "prefork"
    is_ready = ("worker is ready pool=prefork", 2)
    ended, is_back = "exited with 'exitcode 75'", "worker is ready pool=prefork"

    def test_a_stopped_pool_process_is_found_by_its_parent(self, supervised: Up, fleet_harness: AppHarness) -> None:
        (parent, *pool), line_count = workers_of(supervised), len(supervised.lines)
        fleet_harness.model.respond = lambda body: Turn(text="Here.")

        pool[0].suspend()

        supervised.wait_for(f"it is ended pid={pool[0].pid}", after=line_count)
        supervised.wait_for("worker is ready pool=prefork", after=line_count)
        now = {child.pid for child in workers_of(supervised)}
        assert parent.pid in now
        assert pool[1].pid in now
        assert pool[0].pid not in now
        assert fleet_harness.run("Hello?", detached=True).result(90).status == "succeeded"


class TestSolo(EachPool):
    pool = "solo"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """`./callboard up`, whose web process is replaced by each test."""
    with Up(tmp_path_factory.mktemp("up") / "state", "--port", "0", "--workers", "1", **SHORT) as started:
        yield started
        assert started.stop() == 0


@pytest.mark.parametrize("who", ["worker", "all"])
def test_a_stopped_web_process_is_replaced_and_the_page_answers(up: Up, who: str) -> None:
    assert up.get("/health")
    web, line_count = sorted(up.children("gunicorn"), key=lambda child: child.create_time()), len(up.lines)

    for process in web if who == "all" else web[-1:]:
        process.suspend()

    up.wait_for("web gave no sign of life for 5 s; it is ended and started again", after=line_count)
    assert up.get("/health")


def test_a_plain_worker_ends_itself_without_a_supervisor(fleet_settings: Settings, fleet_harness: AppHarness) -> None:
    code = (
        "import os; from bus.loop import process_loop; from bus.liveness import start_liveness; import time\n"
        "async def block(): time.sleep(600)\n"
        "loop = process_loop(); loop.submit(block()); start_liveness(loop, 0.1); time.sleep(60)"
    )

    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False, timeout=50
    )

    assert ended.returncode == 75
