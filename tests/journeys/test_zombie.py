"""A worker that was stopped for longer than its lease and continues: whatever it still does changes nothing."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bus.journal.approvals import Decision
from tests.app_harness import AppHarness
from tests.fleet import Worker
from tests.journeys.neighbour import neighbour, read_until_it_speaks, run_row, shown, standing, step_rows, until
from tests.journeys.outside_tools import arrived
from tests.model_server import Call, Turn

pytestmark = [pytest.mark.journey, pytest.mark.timeout(240)]

WORDS = [f"word{number} " for number in range(40)]
AGENT = """
tools: ['tests.journeys.outside_tools:unsafe', 'tests.journeys.outside_tools:keyed']
timeouts: {first_token_s: 300, between_chunks_s: 300}
"""
STOPS_WITHIN_S = 1.0
SHORT = {"lease_s": 5.0, "beat_s": 1.5, "reap_s": 0.5}


def worker(harness: AppHarness) -> Worker:
    """Plain Celery: under our supervisor its silence would end it."""
    return Worker(harness.settings, log=harness.settings.state / "worker.log")


def test_a_zombie_that_streams_adds_nothing(open_harness: Callable[..., AppHarness]) -> None:
    harness = open_harness(**SHORT)
    harness.agent(AGENT)
    stale = Turn(text=[f"stale{n} " for n in range(2000)], pace=20)
    harness.model.respond = lambda body: stale if len(harness.model.requests) == 1 else Turn(text=WORDS, pace=40)

    with worker(harness) as first:
        handle = harness.run("Hello", detached=True)
        read_until_it_speaks(handle)
        os.kill(first.process.pid, signal.SIGSTOP)
        with neighbour(harness):
            until(lambda: run_row(harness, handle).fence > 1, 30, "another owner")
            read_until_it_speaks(handle)
            os.kill(first.process.pid, signal.SIGCONT)
            began_s = time.monotonic()
            assert harness.model.closed_early.wait(20), "the zombie asks again"
            took_s = time.monotonic() - began_s
            seen = list(handle.events())
        assert first.process.poll() is None

    assert took_s < STOPS_WITHIN_S
    assert shown(seen) == seen[-1].output == "".join(WORDS)  # type: ignore[attr-defined]  # an end has one
    assert standing(seen) == standing(list(handle.events())), "what was seen is what the log holds"
    row = run_row(harness, handle)
    assert (row.status, row.crashes) == ("succeeded", 1)
    assert taken_from(harness, handle.run_id)


def test_a_zombie_that_comes_back_from_its_tools_delivers_nothing(
    open_harness: Callable[..., AppHarness], tmp_path: Path
) -> None:
    harness = open_harness(**SHORT)
    harness.agent(AGENT)
    ledgers = {name: tmp_path / name for name in ("unsafe", "keyed")}
    calls = [Call(name=name, arguments={"ledger": str(ledger)}) for name, ledger in ledgers.items()]
    harness.model.respond = lambda body: (
        Turn(text="Done.") if body["messages"][-1]["role"] == "tool" else Turn(calls=calls)
    )

    with worker(harness) as first:
        handle = harness.run("Hello", detached=True)
        until(lambda: all(map(arrived, ledgers.values())), 60, "both tools were called")
        os.kill(first.process.pid, signal.SIGSTOP)
        with neighbour(harness):
            until(lambda: handle.status() == "waiting", 60, "the neighbour did what it may")
            for ledger in ledgers.values():
                Path(f"{ledger}.over").touch()
            os.kill(first.process.pid, signal.SIGCONT)
            until(lambda: taken_from(harness, handle.run_id), 20, "the zombie lost the run")
            (question,) = handle.approvals()
            handle.decide(question["approval_id"], Decision(decision="take_as_done", result="paid"))
            end = handle.result(60)

    assert (end.status, end.output, question["name"]) == ("succeeded", "Done.", "unsafe")
    keys = {step["name"]: step["idempotency_key"] for step in step_rows(harness, handle) if step["kind"] == "tool"}
    assert arrived(ledgers["unsafe"]) == [keys["unsafe"]]
    assert arrived(ledgers["keyed"]) == [keys["keyed"]] * 2
    assert len(harness.model.requests) == 2, "the zombie asked for nothing more"


def taken_from(harness: AppHarness, run_id: str) -> bool:
    """Return whether the worker said that it lost the run, and left it."""
    text = (harness.settings.state / "worker.log").read_text()
    lost = "taken over by another owner|no heartbeat came through in time"  # whichever it notices first
    return bool(re.search(rf"({lost}) run_id={run_id}", text)) and (
        f"run left to its new owner run_id={run_id}" in text
    )
