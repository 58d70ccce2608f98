"""A process that is stuck, in whatever way, is ended and started again; one that is only slow is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from config.folders import ROOT
from config.settings import Settings
from tests.app_harness import AppHarness
from tests.fleet import environment
from tests.journeys.up import Up, WarmingUp
from tests.model_server import Call, Turn

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(240)]

SHORT = {"CALLBOARD_LEASE_S": "2", "CALLBOARD_BEAT_S": "0.5", "CALLBOARD_REAP_S": "0.5"}
"""Five seconds of silence are too many then (bus/liveness.py)."""


@pytest.fixture
def supervised(fleet_settings: Settings, request: pytest.FixtureRequest) -> Iterator[Up]:
    """`./callboard worker` with one process on the test's pool, ready."""
    variables = {name: text for name, text in environment(fleet_settings).items() if name.startswith("CALLBOARD_")}
    flags = ("-n", "1", "--pool", getattr(request, "param", "threads"), "--slots", "2")
    with WarmingUp(fleet_settings.state, *flags, command="worker", **{**variables, **SHORT}) as up:
        up.wait_for("ready.")
        yield up


def workers_of(up: Up) -> list[psutil.Process]:
    """Return the processes of Celery, the one the supervisor started first."""
    found = [child for child in up.children("celery") if "child.py" not in " ".join(child.cmdline())]
    return sorted(found, key=lambda child: child.create_time())


@pytest.mark.parametrize("supervised", ["threads", "prefork", "solo"], indirect=True)
def test_a_stopped_worker_is_found_and_a_new_one_takes_runs(supervised: Up, fleet_harness: AppHarness) -> None:
    fleet_harness.agent()
    fleet_harness.model.script([Turn(text="Here.")])
    before = {child.pid for child in workers_of(supervised)}

    workers_of(supervised)[0].suspend()

    supervised.wait_for("gave no sign of life for 5 s; it is ended and started again")
    supervised.wait_for("ready.", times=2)
    assert not before & {child.pid for child in workers_of(supervised)}
    assert fleet_harness.run("Hello?", detached=True).result(90).status == "succeeded"
    assert supervised.stop() == 0


@pytest.mark.parametrize(
    ("supervised", "ended", "back"),
    [
        ("threads", "ended (status 75); starting it again", ("ready.", 2)),
        ("prefork", "exited with 'exitcode 75'", ("worker is ready pool=prefork", 3)),
    ],
    indirect=["supervised"],
)
def test_a_tool_that_blocks_the_loop_is_named_and_its_process_replaced(
    supervised: Up, ended: str, back: tuple[str, int], fleet_harness: AppHarness, tmp_path: Path
) -> None:
    fleet_harness.agent("tools: ['tests.agents.sample_tools:block_the_loop']")
    call = Call(name="block_the_loop", arguments={"marker": str(tmp_path / "tried")})
    fleet_harness.model.script([Turn(calls=[call])])

    fleet_harness.run("Block.", detached=True)

    said = supervised.wait_for("the event loop did not turn for 5 s")
    assert "CRITICAL" in said
    assert "in block_the_loop" in said
    assert "task='tool block_the_loop'" in said
    supervised.wait_for(ended)
    supervised.wait_for(*back)
    fleet_harness.model.script([Turn(text="Free again."), Turn(text="Free again.")])
    assert fleet_harness.run("Hello?", detached=True).result(90).status == "succeeded"


@pytest.mark.parametrize("supervised", ["prefork"], indirect=True)
def test_a_stopped_pool_process_is_found_by_its_parent(supervised: Up, fleet_harness: AppHarness) -> None:
    supervised.wait_for("worker is ready pool=prefork", times=2)
    parent, *pool = workers_of(supervised)
    fleet_harness.agent()
    fleet_harness.model.script([Turn(text="Here.")])

    pool[0].suspend()

    supervised.wait_for(f"it is ended pid={pool[0].pid}")
    supervised.wait_for("worker is ready pool=prefork", times=3)
    now = {child.pid for child in workers_of(supervised)}
    assert parent.pid in now
    assert pool[1].pid in now
    assert pool[0].pid not in now
    assert fleet_harness.run("Hello?", detached=True).result(90).status == "succeeded"


def test_a_supervisor_that_was_stopped_ends_no_child(supervised: Up) -> None:
    (worker,) = workers_of(supervised)

    supervised.process.send_signal(signal.SIGSTOP)
    time.sleep(8)  # longer than the silence that is too long: this is about time
    supervised.process.send_signal(signal.SIGCONT)

    time.sleep(3)  # time enough to be wrong
    assert [child.pid for child in workers_of(supervised)] == [worker.pid]
    assert not any("sign of life" in line for line in supervised.lines)
    assert supervised.stop() == 0


def test_a_worker_that_was_stopped_and_continued_in_time_is_left_alone(supervised: Up) -> None:
    (worker,) = workers_of(supervised)

    worker.suspend()
    time.sleep(2)  # shorter than the silence that is too long
    worker.resume()

    time.sleep(6)
    assert [child.pid for child in workers_of(supervised)] == [worker.pid]


@pytest.mark.parametrize("who", ["worker", "all"])
def test_a_stopped_web_process_is_replaced_and_the_page_answers(tmp_path: Path, who: str) -> None:
    with Up(tmp_path / "state", "--port", "0", "--workers", "1", **SHORT) as up:
        assert up.get("/ready")
        web = sorted(up.children("gunicorn"), key=lambda child: child.create_time())

        for process in web if who == "all" else web[-1:]:
            process.suspend()

        up.wait_for("web gave no sign of life for 5 s; it is ended and started again")
        assert up.get("/ready")
        up.stop()


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
