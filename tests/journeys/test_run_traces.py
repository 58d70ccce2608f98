"""Traces that are made of the log are whole, whatever became of the workers: 200 of 200 at a collector of OTLP."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import func, select

from config.database.tables import runs, steps
from config.settings import Settings
from config.tracing import span_id_of, traced
from tests.app_harness import AppHarness
from tests.fleet import ROOT, Worker, environment
from tests.journeys.neighbour import until
from tests.model_server import Call, Turn
from tests.otlp_receiver import OtlpReceiver, facts_of, without_parent

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(500)]

RUNS = 200
CALLER = "00f067aa0ba902b7"


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as server:
        yield server


@contextmanager
def observing(settings: Settings, receiver: OtlpReceiver) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``./callboard observe traces`` from the beginning of the log."""
    chosen = settings.model_copy(update={"traces_url": receiver.url})
    command = [sys.executable, "-m", "cli", "observe", "traces", "--from", "beginning"]
    with (settings.state / "observe.log").open("ab") as log:
        variables = environment(chosen) | {"PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(command, cwd=ROOT, env=variables, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)


def calls_once(pace: int) -> Callable[[Any], Turn]:
    """Call a tool, and answer when its result is there, slowly enough to be killed meanwhile."""

    def respond(body: Any) -> Turn:
        if body["messages"][-1]["role"] == "tool":
            return Turn(text=[f"word{number} " for number in range(20)], pace=pace)
        return Turn(calls=[Call(name="add", arguments={"a": 1, "b": 2})])

    return respond


def start(harness: AppHarness, respond: Callable[[Any], Turn]) -> list[str]:
    harness.agent("tools: ['tests.agents.sample_tools:add']")
    harness.model.respond = respond
    run_ids = []
    for number in range(RUNS):
        with traced(f"{number + 1:032x}", parent_span=CALLER):
            run_ids.append(harness.run("What is 1 + 2?", detached=True).run_id)
    return run_ids


def count(harness: AppHarness, *conditions: Any) -> int:
    with harness.runner.journal.database.read() as connection:
        return int(connection.execute(select(func.count()).select_from(runs).where(*conditions)).scalar_one())


def require_whole(harness: AppHarness, receiver: OtlpReceiver, run_ids: list[str]) -> None:
    """Return if each run has one root, each step one span in its trace, and each span a parent that is there."""
    with harness.runner.journal.database.read() as connection:
        step_rows = connection.execute(select(steps.c.id, steps.c.run_id, steps.c.kind)).all()
    roots = {facts_of(root.attributes)["callboard.run.id"]: root for root in receiver.roots()}
    assert (len(receiver.roots()), {*roots}) == (RUNS, {*run_ids})
    assert {root.trace_id.hex() for root in roots.values()} == {f"{number + 1:032x}" for number in range(RUNS)}
    assert {root.parent_span_id.hex() for root in roots.values()} == {CALLER}
    assert without_parent(receiver.all()) == [root.name for root in receiver.roots()], "the caller sends its own span"
    for row in step_rows:
        span = receiver.spans[roots[row.run_id].trace_id, bytes.fromhex(span_id_of(row.id))]
        assert span.parent_span_id == roots[row.run_id].span_id
    kinds = Counter(row.kind for row in step_rows)
    operations = Counter(facts_of(span.attributes).get("gen_ai.operation.name") for span in receiver.all())
    assert [operations[name] for name in ("invoke_agent", "chat", "execute_tool")] == [
        *(RUNS, kinds["model"], kinds["tool"])
    ]
    by_run = Counter((row.run_id, row.kind) for row in step_rows)
    for run_id, root in roots.items():
        if facts_of(root.attributes)["callboard.run.status"] == "succeeded":
            assert (by_run[run_id, "model"], by_run[run_id, "tool"]) == (2, 1)


def test_half_of_the_workers_and_the_observer_are_killed_and_no_trace_has_a_hole(
    open_harness: Callable[..., AppHarness], receiver: OtlpReceiver
) -> None:
    harness = open_harness(lease_s=8.0, beat_s=2.0, reap_s=0.5, slots=RUNS // 2)
    settings = harness.settings
    logs = [settings.state / f"worker-{name}.log" for name in "ab"]
    with observing(settings, receiver) as first, Worker(settings, log=logs[0]) as doomed, Worker(settings, log=logs[1]):
        run_ids = start(harness, calls_once(pace=10))
        until(lambda: count(harness, runs.c.status == "succeeded") >= RUNS // 20, 60, "some runs have ended")
        doomed.kill()
        first.kill()
        began_s = time.monotonic()
        with observing(settings, receiver):
            until(lambda: count(harness, runs.c.status == "succeeded") == RUNS, 120, "all runs have ended")
            ended_s = time.monotonic() - began_s
            until(lambda: len(receiver.roots()) == RUNS, 30, "all traces have arrived")
            print(
                f"{count(harness, runs.c.fence > 1)} runs had a second owner; all ended {ended_s:.1f} s after the kill"
            )
            print(f"all traces {time.monotonic() - began_s:.1f} s after it, in {len(receiver.sizes)} requests")

    assert count(harness, runs.c.fence > 1) > 0, "the kill interrupted runs"
    require_whole(harness, receiver, run_ids)


def test_a_worker_process_for_each_run_loses_no_trace(brisk_harness: AppHarness, receiver: OtlpReceiver) -> None:
    settings = brisk_harness.settings
    run_ids = start(brisk_harness, calls_once(pace=1000))
    options = ("--pool", "processes", "--concurrency", "6", "--max-tasks-per-child", "1")
    with observing(settings, receiver), Worker(settings, *options, log=settings.state / "worker.log", executed=True):
        until(lambda: count(brisk_harness, runs.c.status == "succeeded") == RUNS, 900, "all runs have ended")
        until(lambda: len(receiver.roots()) == RUNS, 30, "all traces have arrived")

    assert count(brisk_harness, runs.c.crashes > 0) == 0, "a child that ends with its task lets its polled run go"
    require_whole(brisk_harness, receiver, run_ids)
