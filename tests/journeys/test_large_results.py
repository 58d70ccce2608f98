"""Large results cost a run its time once, and a worker its memory for a moment."""

from __future__ import annotations

import time
from typing import Any

import orjson
import psutil
import pytest

from agents.tools.results import MAX_BYTES, to_result
from bus.payloads import ToolPayload, ToolResultPayload
from config.settings import Settings
from tests.app_harness import AppHarness
from tests.fleet import Worker
from tests.journeys.large_tools import ROWS, orders
from tests.journeys.neighbour import until
from tests.model_server import Call, Turn

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(240)]

RESULTS = 25
FEW = 3
"""Rows of a small result, of the run that the large ones are timed beside."""
MIB = 1024 * 1024
STAYS_MIB = 160
"""What a worker may be larger by afterwards: caches, and what lies between living things."""
SMALL_S = 90
"""Within how many seconds: it looks each second here, and pauses for 16 looks where one gave little back."""


def test_a_worker_is_small_again_after_large_results_which_are_whole_to_the_cap(
    fleet_settings: Settings, fleet_harness: AppHarness
) -> None:
    fleet_harness.agent("tools: ['tests.journeys.large_tools:every_order']\nmax_iterations: 40")
    quick = fleet_settings.model_copy(update={"reap_s": 1.0})
    with Worker(quick, "--concurrency", "4", log=quick.state / "worker.log") as worker:
        fleet_harness.model.script([Turn(text="Hello.")])
        fleet_harness.run(detached=True).result(90)
        process = psutil.Process(worker.process.pid)
        before = _mib(process)
        alone_s = _seconds_of_the_tool_alone()
        for how, turns_of in (("one by one", one_by_one), ("at once", at_once)):
            small_s, small = _run(fleet_harness, turns_of(FEW))
            large_s, large = _run(fleet_harness, turns_of(ROWS))
            print(
                f"{RESULTS} results {how}: {large_s:.1f} s of 5 MB, {small_s:.1f} s of {FEW} rows "
                f"({large_s / small_s:.0f} times as long, {(large_s - small_s) / alone_s:.1f} times what the tool "
                f"takes alone); worker at {_mib(process)} MiB"
            )
            assert small == [orders(year, FEW) for year in range(RESULTS)]
            for year, result in enumerate(large):
                assert_whole_to_the_cap(result, orjson.dumps(orders(year, ROWS)).decode())
        char_count = max(
            len(str(message)) for request in fleet_harness.model.requests for message in request.body["messages"]
        )
        until(lambda: _mib(process) - before < STAYS_MIB, SMALL_S, "the worker is small again")
        print(f"before {before} MiB, after {_mib(process)} MiB")

    assert char_count < 65_000


def one_by_one(rows: int) -> list[Turn]:
    """Return turns that call the tool once each."""
    return [Turn(calls=[call(year, rows)]) for year in range(RESULTS)]


def at_once(rows: int) -> list[Turn]:
    """Return a turn with all the calls."""
    return [Turn(calls=[call(year, rows) for year in range(RESULTS)])]


def call(year: int, rows: int) -> Call:
    return Call(name="every_order", arguments={"year": year, "rows": rows})


def assert_whole_to_the_cap(result: Any, whole: str) -> None:
    """The result has the longest it may have, every byte of it as the tool returned it, and says what is missing."""
    excerpt, _, note = result.rpartition("\n")

    assert len(result.encode()) == MAX_BYTES
    assert whole.startswith(excerpt)
    assert note == f"[cut here: {MAX_BYTES:,} of {len(whole):,} bytes are shown]"


def _run(harness: AppHarness, turns: list[Turn]) -> tuple[float, list[Any]]:
    """Return how many seconds a run of these turns took, and its results as the log has them, by year."""
    harness.model.script([*turns, Turn(text="I have seen it.")])
    began_s = time.monotonic()
    run = harness.run("Go.", detached=True)
    assert run.result(120).status == "succeeded"
    took_s = time.monotonic() - began_s
    events = harness.events(run)
    years = {
        event.step_id: event.arguments["year"] for event in events if isinstance(event, ToolPayload) and event.arguments
    }
    results = {years[payload.step_id]: payload.result for payload in events if isinstance(payload, ToolResultPayload)}
    return took_s, [results[year] for year in range(RESULTS)]


def _seconds_of_the_tool_alone() -> float:
    """Return how long it takes here to make the large results and to write them down as JSON, one after another."""
    began_s = time.monotonic()
    for year in range(RESULTS):
        to_result(orders(year, ROWS))
    return time.monotonic() - began_s


def _mib(process: psutil.Process) -> int:
    return int(sum(child.memory_info().rss for child in [process, *process.children(recursive=True)]) // MIB)
