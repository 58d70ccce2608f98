"""kill -9 of a worker, wherever it is: another one resumes the run, nothing is said twice, no effect is guessed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import psutil
import pytest

from agents.handle import RunHandle
from bus.journal.approvals import Decision
from bus.journal.ownership.lease_manager import RETRY_S
from bus.journal.states.crashes import GRACE_BEATS
from bus.payloads import Payload, WithdrawnPayload
from tests.app_harness import AppHarness
from tests.conftest import need
from tests.fleet import Worker
from tests.journeys.neighbour import neighbour, read_until_it_speaks, run_row, shown, standing, step_rows, until
from tests.journeys.outside_tools import arrived
from tests.model_server import Call, Turn

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(240)]

ANSWER = "This is the whole answer."
EFFECTS = ("pure", "idempotent", "keyed", "checkable")
TOOLS = "tools: [{}]".format(", ".join(f"tests.journeys.outside_tools:{name}" for name in (*EFFECTS, "unsafe")))
READY = re.compile("worker is ready pool=prefork")
OWNED_AGAIN_S = 22.0
"""With the default periods, when the worker was of another machine."""
SEEN_S = 8.0
"""With the default periods, when it was a process of this machine."""
OWN_MACHINE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child=SIGKILL")
"""A pid namespace: from outside the process of an owner's id is unknown, as on another machine."""


def worker(harness: AppHarness, *options: str, within: tuple[str, ...] = ()) -> Worker:
    return Worker(harness.settings, *options, log=harness.settings.state / "worker.log", within=within)


def log_of(harness: AppHarness) -> str:
    return (harness.settings.state / "worker.log").read_text()


def stalled_run(harness: AppHarness) -> RunHandle:
    """Return a run whose model said two words and then nothing more; asked again, it says everything."""
    harness.agent("timeouts: {first_token_s: 300, between_chunks_s: 300}")
    harness.model.script([Turn(text=["lost ", "words"], stall_after=2), Turn(text=ANSWER)])
    handle = harness.run("Hello", detached=True)
    read_until_it_speaks(handle)
    return handle


def assert_taken_over(harness: AppHarness, handle: RunHandle, seen: list[Payload]) -> None:
    """One withdrawal takes the lost words back, and what a viewer shows is what the model said at last."""
    assert shown(seen) == seen[-1].output == ANSWER  # type: ignore[attr-defined]  # an end has one
    assert [type(event) for event in seen].count(WithdrawnPayload) == 1
    assert standing(seen) == standing(list(handle.events())), "what was seen is what the log holds"
    assert len(harness.model.requests) == 2
    row = run_row(harness, handle)
    assert (row.status, row.crashes, row.fence) == ("succeeded", 1, 2)


def test_a_process_of_this_machine_that_was_killed_is_found_at_once(open_harness: Callable[..., AppHarness]) -> None:
    harness = open_harness(lease_s=60.0, beat_s=5.0, reap_s=1.0)
    with worker(harness) as first:
        handle = stalled_run(harness)
        with neighbour(harness):
            first.kill()
            began_s = time.monotonic()
            seen = list(handle.events())
            took_s = time.monotonic() - began_s

    assert_taken_over(harness, handle, seen)
    assert took_s < SEEN_S, "long before its lease of a minute is over"


def test_a_worker_of_another_machine_is_given_up_when_its_lease_is_over(
    open_harness: Callable[..., AppHarness],
) -> None:
    harness = open_harness(lease_s=5.0, beat_s=1.5, reap_s=0.5)
    looks = 3 * harness.settings.reap_s  # of its reaper; and it takes what it saw in the queue twice
    last_call = GRACE_BEATS * RETRY_S
    assert_given_up_with_the_lease(
        harness, lambda: neighbour(harness), harness.settings.lease_s + looks + last_call + 1.0
    )


def test_with_the_default_periods_it_has_a_new_owner_within_22_seconds(open_harness: Callable[..., AppHarness]) -> None:
    harness = open_harness(lease_s=15.0, beat_s=5.0, reap_s=5.0)
    assert_given_up_with_the_lease(harness, lambda: worker(harness), OWNED_AGAIN_S)


def assert_given_up_with_the_lease(
    harness: AppHarness, other: Callable[[], AbstractContextManager[object]], bar_s: float
) -> None:
    """A worker whose process is invisible loses its run to ``other`` within ``bar_s``."""
    has_it = shutil.which("unshare") is not None
    may = has_it and subprocess.run([*OWN_MACHINE, "true"], check=False, capture_output=True).returncode == 0
    need("unshare" if may else None, "unshare, with the right to make a pid namespace,")
    with worker(harness, within=OWN_MACHINE) as first:
        handle = stalled_run(harness)
        with other():
            first.kill()
            took_s = until(lambda: run_row(harness, handle).fence > 1, 60, "the run has a new owner")
            seen = list(handle.events())

    print(f"owned again after {took_s:.1f} s, at most {bar_s:.1f} s")
    assert_taken_over(harness, handle, seen)
    assert "its lease expired" in run_row(harness, handle).crashes_json
    assert took_s <= bar_s


def test_a_worker_that_is_killed_while_it_drains_loses_nothing(brisk_harness: AppHarness) -> None:
    with worker(brisk_harness) as first:
        handle = stalled_run(brisk_harness)
        first.process.send_signal(signal.SIGTERM)
        until(lambda: "takes no more runs" in log_of(brisk_harness), 10, "the worker drains")
        with neighbour(brisk_harness):
            first.kill()
            seen = list(handle.events())

    assert_taken_over(brisk_harness, handle, seen)


def test_a_pool_process_that_was_killed_loses_its_run_to_its_sibling_within_8_seconds(
    open_harness: Callable[..., AppHarness],
) -> None:
    harness = open_harness(lease_s=15.0, beat_s=5.0, reap_s=5.0)
    with worker(harness, "--pool", "processes", "--concurrency", "2") as first:
        until(lambda: READY.findall(log_of(harness))[1:] != [], 90, "both processes are ready")
        handle = stalled_run(harness)
        (victim,) = [child for child in children_of(first) if f"_{child.pid}_" in run_row(harness, handle).owner]
        os.kill(victim.pid, signal.SIGKILL)
        took_s = until(lambda: run_row(harness, handle).fence > 1, 60, "the run has a new owner")
        seen = list(handle.events())

    print(f"owned again after {took_s:.1f} s")
    assert_taken_over(harness, handle, seen)
    assert took_s <= SEEN_S


# --- in the middle of a tool ----------------------------------------------------------------------


@pytest.fixture
def books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the ledgers, which the other side of the checkable tool looks into."""
    monkeypatch.setenv("OUTSIDE_BOOKS", str(tmp_path))
    return tmp_path


ANSWERS = (
    Decision(decision="run_again"),
    Decision(decision="take_as_done", result="paid"),
    Decision(decision="fail"),
)


def in_a_tool(harness: AppHarness, name: str, ledger: Path) -> RunHandle:
    """Return a run that is in the middle of a call of this tool."""
    use = Turn(calls=[Call(name=name, arguments={"ledger": str(ledger)})])
    harness.model.respond = lambda body: Turn(text=ANSWER) if body["messages"][-1]["role"] == "tool" else use
    handle = harness.run(f"Use {name}", detached=True)
    until(lambda: bool(arrived(ledger)), 60, f"{name} was called")
    return handle


def children_of(first: Worker) -> list[psutil.Process]:
    """Return the processes of the pool; of the threads pool, the worker itself."""
    parent = psutil.Process(first.process.pid)
    return parent.children() or [parent]


@pytest.mark.parametrize(
    ("pool", "names"),
    [("threads", (*EFFECTS, "unsafe", "unsafe", "unsafe")), ("processes", ("idempotent", "keyed", "unsafe"))],
)  # a process of a pool works on one run, and there are two cores here
def test_a_call_that_was_cut_off_is_made_again_or_asked_about_as_its_effect_allows(
    pool: str, names: tuple[str, ...], brisk_harness: AppHarness, books: Path
) -> None:
    harness = brisk_harness
    harness.agent(TOOLS)
    ledgers = [books / f"{name}-{number}.ledger" for number, name in enumerate(names)]
    safe = len([name for name in names if name != "unsafe"])

    with worker(harness, "--pool", pool, "--concurrency", str(len(names))) as first:
        handles = [in_a_tool(harness, name, ledger) for name, ledger in zip(names, ledgers, strict=True)]
        victims = children_of(first)
        for victim in victims:
            os.kill(victim.pid, signal.SIGKILL)
        with neighbour(harness):
            ends = [handle.result(90) for handle in handles[:safe]]
            until(lambda: {handle.status() for handle in handles[safe:]} == {"waiting"}, 90, "a person is asked")
            key_lists = [arrived(ledger) for ledger in ledgers]
            for handle, answer in zip(handles[safe:], ANSWERS, strict=False):
                (question,) = handle.approvals()
                assert (question["name"], question["decisions"]) == ("unsafe", ["run_again", "take_as_done", "fail"])
                handle.decide(question["approval_id"], answer)
            ends += [handle.result(90) for handle in handles[safe:]]

    expected = [*["succeeded"] * (safe + 2), "failed"][: len(names)]
    assert [end.status for end in ends] == expected
    calls = {"pure": 2, "idempotent": 2, "keyed": 2, "checkable": 1, "unsafe": 1}
    assert [len(keys) for keys in key_lists] == [calls[name] for name in names], "before a person answered"
    assert [len(set(arrived(ledger))) for ledger in ledgers] == [1] * len(names), (
        "one key a step, whichever worker calls"
    )
    assert [len(arrived(ledger)) for ledger in ledgers[safe:]] == [2, 1, 1][: len(names) - safe]
    assert [run_row(harness, handle).crashes for handle in handles] == [1] * len(names)
    results = [
        step["result_json"] for handle in handles for step in step_rows(harness, handle) if step["kind"] == "tool"
    ]
    assert results[:safe] == ['"done before"' if name == "checkable" else '"done"' for name in names[:safe]]
    assert results[safe : safe + 2] == ['"done"', '"paid"'][: len(names) - safe]
