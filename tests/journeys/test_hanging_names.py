"""A look-up of a model server's name hangs: its own runs fail in time, and no other run waits for it."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from config.settings import Settings
from tests.app_harness import AppHarness, write_agent
from tests.conftest import need
from tests.fleet import Worker
from tests.hanging_names import LOOKED_UP_S, hanging_names
from tests.journeys.test_slow_disk import environment

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(180)]

LOOKUP_THREADS = 12
"""More than the threads that libuv has for look-ups by default."""
GROWTH_S = 1.0


def test_other_runs_do_not_wait_for_a_look_up_that_hangs(
    fleet_harness: AppHarness, fleet_settings: Settings, tmp_path: Path
) -> None:
    need(shutil.which("gcc"), "gcc")
    agents = Path(fleet_settings.agents_dir.split(":")[0])
    for number in range(LOOKUP_THREADS):
        write_agent(agents, f"http://hangs-{number}.test/v1", "timeouts: {connect_s: 3}\n", f"hangs-{number}", "openai")
    write_agent(agents, fleet_harness.model.url.replace("127.0.0.1", "localhost"), "", "neighbour", "openai")

    with environment(hanging_names(tmp_path)), Worker(fleet_settings, log=tmp_path / "worker.log") as worker:
        _speaks_s(fleet_harness)  # a worker's first run takes longer
        alone_s = _speaks_s(fleet_harness)
        hanging = [fleet_harness.run("Speak", f"hangs-{number}", detached=True) for number in range(LOOKUP_THREADS)]
        time.sleep(1)  # another process; it looks the names up
        beside_s = _speaks_s(fleet_harness)
        ends = [handle.result(LOOKED_UP_S / 2) for handle in hanging]
        leaving_s = time.monotonic()
        worker.process.terminate()
        worker.process.wait(LOOKED_UP_S / 2)
        left_s = time.monotonic() - leaving_s

    print(
        f"neighbour {alone_s:.2f} s alone, {beside_s:.2f} s beside {LOOKUP_THREADS} look-ups; it left in {left_s:.1f} s"
    )
    assert {(end.status, end.reason) for end in ends} == {("failed", "model_timeout")}
    assert beside_s - alone_s < GROWTH_S


def _speaks_s(harness: AppHarness) -> float:
    began = time.monotonic()
    assert harness.run("Speak", "neighbour", detached=True).result(60).status == "succeeded"
    return time.monotonic() - began
