"""kill -9 of every worker while a hundred runs stream: each has an owner again in time, ends, and is seen whole.

In time is within 22 s of the kill, the start of new workers included; where that alone takes more than ten seconds,
within twelve of it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest
from sqlalchemy import func, select

from bus.payloads import TERMINAL
from config.database.tables import runs
from tests.app_harness import AppHarness
from tests.fleet import environment
from tests.journeys.neighbour import until
from tests.journeys.up import Up, WarmingUp
from tests.journeys.web_server import Watching, Web
from tests.model_server import Turn
from tests.ports import free_port

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(300)]

RUNS, VIEWERS = 100, 5
TOKENS, PACE = 80, 10
OWNED_AGAIN_S = 22.0
"""With the default periods, on a machine where a worker begins within ten seconds."""
LOOKS_S = 12.0
"""Two looks at the database, give or take a fifth. On a slower machine each run has an owner so long after a worker
began; before, no worker can own anything."""


def supervised(harness: AppHarness) -> Up:
    """`./callboard worker` with two processes."""
    variables = {name: text for name, text in environment(harness.settings).items() if name.startswith("CALLBOARD_")}
    return WarmingUp(harness.settings.state, "-n", "2", "--slots", str(RUNS), command="worker", **variables)


def count(harness: AppHarness, *conditions: object) -> int:
    query = select(func.count()).select_from(runs).where(*conditions)  # type: ignore[arg-type]  # columns compared
    with harness.runner.journal.database.read() as connection:
        return int(connection.execute(query).scalar_one())


def standing(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events that were not withdrawn."""
    gone = {n for event in events for first, last in event.get("ranges", ()) for n in range(first, last + 1)}
    return [event for event in events if event["seq"] not in gone]


def test_a_hundred_streaming_runs_survive_the_loss_of_every_worker(open_harness: Callable[..., AppHarness]) -> None:
    port = free_port()
    harness = open_harness(lease_s=15.0, beat_s=5.0, reap_s=5.0, port=port)
    harness.agent()
    text = [f"word{number} " for number in range(TOKENS)]
    harness.model.respond = lambda body: Turn(text=text, pace=PACE)

    began_s = time.monotonic()
    with Web(harness.settings) as web, supervised(harness) as up:
        up.wait_for("ready.", times=2)
        start_s = time.monotonic() - began_s
        handles = [harness.run("Count.", detached=True) for _ in range(RUNS)]
        watched = [Watching(web, handle.run_id) for handle in handles[:: RUNS // VIEWERS]]
        until(lambda: count(harness, runs.c.fence >= 1) == RUNS, 60, "each run has its first owner")
        for watching in watched:
            watching.until(lambda watching=watching: len(watching.pieces) >= 3)

        for child in up.children("celery"):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        killed_s = time.monotonic()
        open_before = RUNS - count(harness, runs.c.status.in_(TERMINAL))  # a new worker takes a second to begin
        until(lambda: count(harness, runs.c.fence >= 2) == open_before, 120, "each open run has an owner again")
        owned_s = time.monotonic() - killed_s
        until(lambda: count(harness, runs.c.status == "succeeded") == RUNS, 120, "all runs ended")
        ended_s = time.monotonic() - killed_s

        bar_s = max(OWNED_AGAIN_S, start_s + LOOKS_S)
        print(f"workers ready after {start_s:.1f} s; {open_before} of {RUNS} runs open when all workers were killed")
        print(f"all owned again after {owned_s:.1f} s, at most {bar_s:.1f} s; all ended after {ended_s:.1f} s")
        for watching in watched:
            seen = watching.to_the_end()
            assert standing(seen) == standing(web.events(watching.run_id)), "what was seen is what the log holds"
            assert seen[-1]["output"] == "".join(text)
            assert "".join(e["content"] for e in standing(seen) if e["type"] == "response") == "".join(text)
        assert open_before > RUNS // 2, "the kill came in the middle"
        assert count(harness, runs.c.crashes == 1) == open_before
        assert owned_s <= bar_s
