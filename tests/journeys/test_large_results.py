"""Large results cost a run its time once, and a worker its memory for a moment."""

from __future__ import annotations

import time

import psutil
import pytest

from config.settings import Settings
from tests.fleet import Worker
from tests.house import House
from tests.journeys.neighbour import until
from tests.model_server import Call, Turn

pytestmark = [pytest.mark.journey, pytest.mark.timeout(240)]

RESULTS = 25
MIB = 1024 * 1024
STAYS_MIB = 160
"""What a worker may be larger by afterwards: caches, and what lies between living things."""
SMALL_S = 90
"""Within how many seconds: it looks each second here, and pauses for 16 looks where one gave little back."""


def test_a_worker_is_small_again_after_large_results(fleet_settings: Settings, fleet_house: House) -> None:
    fleet_house.agent("tools: ['tests.journeys.large_tools:every_order']\nmax_iterations: 40")
    one_by_one = [Turn(calls=[Call(name="every_order", arguments={"year": year})]) for year in range(RESULTS)]
    at_once = [Turn(calls=[Call(name="every_order", arguments={"year": year}) for year in range(RESULTS)])]
    quick = fleet_settings.model_copy(update={"reap_s": 1.0})
    with Worker(quick, "--concurrency", "4", log=quick.state / "worker.log") as worker:
        fleet_house.model.script([Turn(text="Hello.")])
        fleet_house.run(detached=True).result(90)
        process = psutil.Process(worker.process.pid)
        before = _mib(process)
        for turns in (one_by_one, at_once):
            fleet_house.model.script([*turns, Turn(text="I have seen it.")])
            began_s = time.monotonic()
            assert fleet_house.run("Go.", detached=True).result(120).status == "succeeded"
            print(f"{RESULTS} results in {time.monotonic() - began_s:.1f} s, worker at {_mib(process)} MiB")
        shown = max(len(str(message)) for request in fleet_house.model.requests for message in request.body["messages"])
        until(lambda: _mib(process) - before < STAYS_MIB, SMALL_S, "the worker is small again")
        print(f"before {before} MiB, after {_mib(process)} MiB")

    assert shown < 65_000


def _mib(process: psutil.Process) -> int:
    return int(sum(one.memory_info().rss for one in [process, *process.children(recursive=True)]) // MIB)
