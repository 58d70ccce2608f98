"""kill -9 of every worker twice within a minute, while sixty runs wait for a model: they resume together.

A run that is killed in a tool twice is suspected and kept apart (`test_deadly_tools.py`); one that only waited
for its model is not.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import psutil
import pytest
from sqlalchemy import func, select

from bus.payloads import TERMINAL
from config.database.tables import runs
from tests.app_harness import AppHarness
from tests.fleet import environment
from tests.journeys.neighbour import until
from tests.journeys.test_all_workers_killed import LOOKS_S, OWNED_AGAIN_S
from tests.journeys.up import Up
from tests.model_server import Turn

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(400)]

RUNS, WORKERS = 60, 2
TOKENS, PACE = 50, 10
"""Five seconds a run."""


class Fleet:
    """Runs of five seconds, and workers that are all killed."""

    def __init__(self, harness: AppHarness, up: Up) -> None:
        self.harness = harness
        self._up = up
        self._ready = 0
        began_s = time.monotonic()
        self._wait_for_workers()
        self.start_s = time.monotonic() - began_s

    def _wait_for_workers(self) -> None:
        self._ready += WORKERS
        self._up.wait_for("ready.", times=self._ready)

    def count(self, *conditions: object) -> int:
        query = select(func.count()).select_from(runs).where(*conditions)  # type: ignore[arg-type]  # columns compared
        with self.harness.runner.journal.database.read() as connection:
            return int(connection.execute(query).scalar_one())

    def begin(self) -> None:
        """Start the runs; each has an owner when this returns."""
        for _ in range(RUNS):
            self.harness.run("Count.", detached=True)
        until(lambda: self.count(runs.c.status == "queued") == 0, 60, "each run has an owner")

    def kill_all(self) -> float:
        """Kill all workers and return after how many seconds each open run had an owner again."""
        owned_before = self.count(runs.c.status.notin_(TERMINAL))
        for child in self._up.children("celery"):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        killed_s = time.monotonic()
        crashes = self.count(runs.c.crashes >= 1), self.count(runs.c.crashes >= 2)
        until(lambda: self._crashes() >= sum(crashes) + owned_before, 60, "each loss is noted")
        until(lambda: self.count(runs.c.status == "queued") == 0, 200, "each open run has an owner again")
        owned_s = time.monotonic() - killed_s
        self._wait_for_workers()
        return owned_s

    def _crashes(self) -> int:
        return self.count(runs.c.crashes >= 1) + self.count(runs.c.crashes >= 2)

    def end(self) -> None:
        """Return when all runs have succeeded."""
        until(lambda: self.count(runs.c.status.in_(TERMINAL)) == RUNS, 300, "all runs ended")
        assert self.count(runs.c.status == "succeeded") == RUNS


def supervised(harness: AppHarness) -> Up:
    """`./callboard worker` with two processes."""
    variables = {name: text for name, text in environment(harness.settings).items() if name.startswith("CALLBOARD_")}
    return Up(harness.settings.state, "-n", str(WORKERS), "--slots", str(RUNS), command="worker", **variables)


def test_sixty_streaming_runs_survive_the_loss_of_every_worker_twice(open_harness: Callable[..., AppHarness]) -> None:
    harness = open_harness(lease_s=15.0, beat_s=5.0, reap_s=5.0)
    harness.agent()
    harness.model.respond = lambda body: Turn(text=[f"word{number} " for number in range(TOKENS)], pace=PACE)

    with supervised(harness) as up:
        fleet = Fleet(harness, up)
        fleet.begin()
        owned_s = [fleet.kill_all()]
        owned_s.append(fleet.kill_all())
        ended_s = time.monotonic()
        fleet.end()
        ended_s = time.monotonic() - ended_s + owned_s[1]
        crashed_twice = fleet.count(runs.c.crashes == 2)

    bar_s = max(OWNED_AGAIN_S, fleet.start_s + LOOKS_S)
    print(f"{crashed_twice} of {RUNS} runs lost two owners; workers begin within {fleet.start_s:.1f} s")
    print(f"all owned again after {owned_s[0]:.1f} and {owned_s[1]:.1f} s, at most {bar_s:.1f} s")
    print(f"all ended {ended_s:.1f} s after the second kill, at most {2 * (owned_s[0] + TOKENS / PACE):.1f} s")
    assert crashed_twice > RUNS // 2, "the second kill came in the middle"
    assert max(owned_s) <= bar_s
    assert ended_s <= 2 * (owned_s[0] + TOKENS / PACE), "twice what one kill costs: an owner again, and the answer"
