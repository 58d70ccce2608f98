"""A tool that ends its process: the run that calls it is dead after three tries or four, and no innocent one is."""

from __future__ import annotations

import re
import resource
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest

from agents.handle import RunHandle
from tests.app_harness import AppHarness
from tests.fleet import Worker, environment
from tests.journeys.neighbour import run_row, step_rows, until
from tests.journeys.outside_tools import arrived
from tests.journeys.up import Up
from tests.model_server import Call, Turn

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(300)]

INNOCENT = 10
AGENT = """
tools: ['tests.journeys.outside_tools:die', 'tests.journeys.outside_tools:hoard']
timeouts: {first_token_s: 300, between_chunks_s: 300}
"""
SEEN_S = 8.0
"""With the default periods the death of a process is seen within this, long before its lease is over."""


class Deaths:
    """A run that kills its process as often as it is let, among runs that say nothing until it is over."""

    def __init__(self, harness: AppHarness, ledger: Path, how: str) -> None:
        self.harness = harness
        self.ledger = ledger
        self.asked: Counter[str] = Counter()
        """How often the model was asked, by what was asked."""
        self._how = how
        harness.agent(AGENT)
        harness.model.respond = self._respond

    def _respond(self, body: Mapping[str, Any]) -> Turn:
        prompt = next(message["content"] for message in body["messages"] if message["role"] == "user")
        self.asked[prompt] += 1
        if prompt == "Die":
            return Turn(calls=[Call(name="die", arguments={"ledger": str(self.ledger), "how": self._how})])
        is_cut_off = prompt.startswith("Live") and self.asked[prompt] < 3
        return Turn(text=["one ", "two"], stall_after=2 if is_cut_off else None)

    def poison(self) -> RunHandle:
        return self.harness.run("Die", detached=True)

    def innocents(self) -> list[RunHandle]:
        return [self.harness.run(f"Live {number}", detached=True) for number in range(INNOCENT)]

    def wait_until_asked(self, times: int) -> None:
        """Return once the model was asked so often in all."""
        until(lambda: sum(self.asked.values()) >= times, 120, f"the model is asked {times} times")

    def seen_after_s(self, handle: RunHandle, crashes: int) -> float:
        """Return after how many seconds so many crashes of the run were seen."""
        return until(lambda: run_row(self.harness, handle).crashes == crashes, 60, "its death is seen")

    def let_it_die(self, number: int) -> None:
        """Let the ``number``-th call end its process, and the later ones."""
        until(lambda: len(arrived(self.ledger)) >= number, 120, f"call {number} of the deadly tool")
        Path(f"{self.ledger}.{number}").touch()


def assert_dead(harness: AppHarness, handle: RunHandle) -> int:
    """The run is dead, says at which tool, and was alone at last; return how often it was tried."""
    end = handle.result(120)
    crashes = orjson.loads(run_row(harness, handle).crashes_json)
    assert (end.status, end.reason) == ("dead", "crashed")
    assert {crash["during"] for crash in crashes} == {"tool die"}
    assert [crash.get("alone") for crash in crashes] in ([None, None, True], [None, None, False, True])
    assert {crash["seen"] for crash in crashes} == {"its process ended"}
    assert "tool die" in str([event for event in handle.events() if event.event_type == "error"])
    assert all(step["ended_ms"] is not None for step in step_rows(harness, handle))
    return len(crashes)


def test_ten_innocent_runs_outlive_a_poisoned_one_in_their_process(
    open_harness: Callable[..., AppHarness], tmp_path: Path
) -> None:
    harness = open_harness(lease_s=60.0, beat_s=5.0, reap_s=0.5)
    deaths = Deaths(harness, tmp_path / "ledger", "exit")
    variables = {name: text for name, text in environment(harness.settings).items() if name.startswith("CALLBOARD_")}

    with Up(harness.settings.state, "-n", "1", "--slots", "20", command="worker", **variables) as up:
        up.wait_for("ready.")
        innocents, poison = deaths.innocents(), deaths.poison()
        for life in (1, 2):  # both times all of them are in the process that dies
            deaths.wait_until_asked(INNOCENT * life + 1)
            deaths.let_it_die(life)
        for life in (3, 4):  # the fourth, where an innocent run was still beside the third
            Path(f"{deaths.ledger}.{life}").touch()

        tries = assert_dead(harness, poison)
        ends = [handle.result(120) for handle in innocents]
        up.wait_for("starting it again", times=3)

    assert Counter(end.status for end in ends) == {"succeeded": INNOCENT}
    assert [run_row(harness, handle).crashes for handle in innocents] == [2] * INNOCENT
    assert len(arrived(deaths.ledger)) == tries
    assert len(set(arrived(deaths.ledger))) == 1, "one key"


def test_a_pool_process_that_the_kernel_kills_three_times_is_seen_each_time(
    open_harness: Callable[..., AppHarness], tmp_path: Path
) -> None:
    harness = open_harness(lease_s=15.0, beat_s=5.0, reap_s=5.0)
    deaths = Deaths(harness, tmp_path / "ledger", "kill")
    log = harness.settings.state / "worker.log"
    harness.runner.journal.owner.reaper.start()  # as a web process has one: after two deaths both children still begin

    with Worker(harness.settings, "--pool", "processes", "--concurrency", "2", log=log) as worker:
        poison = deaths.poison()
        for life in (1, 2, 3):
            deaths.let_it_die(life)
            took_s = deaths.seen_after_s(poison, life)
            print(f"death {life} was seen after {took_s:.1f} s, at most {SEEN_S:.1f} s")
            assert took_s <= SEEN_S
        assert assert_dead(harness, poison) == 3, "a process of its own each time"
        end = harness.run("Are you well?", detached=True).result(120)
        assert worker.process.poll() is None

    assert end.status == "succeeded"


def test_a_tool_that_finds_no_memory_fails_and_its_process_lives(brisk_harness: AppHarness) -> None:
    harness = brisk_harness
    harness.agent(AGENT)
    hoard = Turn(calls=[Call(name="hoard", arguments={"megabytes": 8192})])
    harness.model.respond = lambda body: (
        Turn(text=str(body["messages"][-1]["content"])) if body["messages"][-1]["role"] == "tool" else hoard
    )

    with Worker(harness.settings, log=harness.settings.state / "worker.log") as worker:
        limit = psutil.Process(worker.process.pid).memory_info().vms + 2048 * 1024 * 1024
        resource.prlimit(worker.process.pid, resource.RLIMIT_AS, (limit, limit))
        ends = [harness.run("Hoard", detached=True).result(60) for _ in range(2)]
        assert worker.process.poll() is None

    assert {end.status for end in ends} == {"succeeded"}
    assert all(re.search("MemoryError", str(end.output)) for end in ends)
