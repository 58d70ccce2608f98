"""SIGTERM: nothing is lost, nothing counts as a crash, and what was under way continues elsewhere."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
import redis
from sqlalchemy import select

from agents.handle import RunHandle
from agents.process import current_process
from agents.runner import Runner
from bus.broker.envelope import rewrite_item
from bus.payloads import ResponsePayload, StatusPayload, WithdrawnPayload
from config.database.migrate import migrate
from config.database.tables import runs
from config.settings import Settings
from handlers.worker.run_agent_handler import Poller
from handlers.worker.slots import SlotPool
from tests.app_harness import AppHarness
from tests.fleet import Worker
from tests.fork_server import Process
from tests.model_server import Call, ModelServer, Turn

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(180)]

DRAIN_S = 2.0
ROUNDS = 4
BEYOND_S = 5.0
"""What a worker may take beyond its grace, by the promise."""


@pytest.fixture
def harness(settings: Settings, redis_url: str, tmp_path: Path) -> Iterator[AppHarness]:
    ours = settings.model_copy(
        update={
            "redis_url": redis_url,
            "agents_dir": str(tmp_path / "agents"),
            "drain_s": DRAIN_S,
            "lease_s": 15.0,
            "beat_s": 5.0,
            "reap_s": 1.0,
            "slots": 20,
        }
    )
    migrate(ours)
    runner = Runner.open(ours)
    with ModelServer() as model:
        harness = AppHarness(runner, model, tmp_path / "agents")
        harness.agent("""
            tools: ['tests.agents.sample_tools:add', 'tests.agents.sample_tools:wait_long']
            timeouts: {first_token_s: 300, between_chunks_s: 300}
        """)
        yield harness
        runner.close()


def worker(harness: AppHarness, name: str, pool: str = "threads") -> Worker:
    folder = harness.settings.state
    folder.mkdir(exist_ok=True)
    return Worker(harness.settings, "--pool", pool, "--concurrency", "2", log=folder / f"{name}.log")


@contextmanager
def helping(harness: AppHarness) -> Iterator[None]:
    """Let this process take queued runs as a worker does, without the seconds a worker process needs to begin."""
    slots = SlotPool(20)
    polling = harness.runner.journal.loop.submit(Poller(current_process(), slots).run())
    yield
    slots.close()
    polling.result(10)


def crashes(harness: AppHarness, handle: RunHandle) -> int:
    with harness.runner.journal.database.read() as connection:
        return int(connection.execute(select(runs.c.crashes).where(runs.c.id == handle.run_id)).scalar_one())


def read_until_it_speaks(handle: RunHandle) -> None:
    for event in handle.events():
        if isinstance(event, ResponsePayload):
            return


def is_gone_within(process: Process, seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


@pytest.mark.parametrize("pool", ["threads", "processes", "solo"])
def test_a_run_in_the_middle_of_an_answer_continues_elsewhere(pool: str, harness: AppHarness) -> None:
    harness.model.script([Turn(text=["lost ", "words"], stall_after=2), Turn(text="The whole answer.")])

    with worker(harness, "first", pool) as first:
        handle = harness.run("Hello", detached=True)
        read_until_it_speaks(handle)
        with helping(harness):
            first.process.send_signal(signal.SIGTERM)
            assert is_gone_within(first.process, DRAIN_S + BEYOND_S)
            events = list(handle.events())

    assert events[-1].status == "succeeded"  # type: ignore[attr-defined]  # an end has one
    assert [e.status for e in events if isinstance(e, StatusPayload)] == ["queued", "running", "moved", "running"]
    assert [type(e) for e in events].count(WithdrawnPayload) == 1
    assert crashes(harness, handle) == 0
    moved, again = (datetime.fromisoformat(e.at) for e in events[-8:] if isinstance(e, StatusPayload))
    assert (again - moved).total_seconds() < 10.0, "no lease of 15 s had to expire"


def test_a_step_that_ends_in_time_is_not_done_again(harness: AppHarness) -> None:
    add = Turn(calls=[Call(name="add", arguments={"a": 1, "b": 2})], first_delay_s=1.0)
    harness.model.respond = lambda body: Turn(text="Three.") if body["messages"][-1]["role"] == "tool" else add

    with worker(harness, "first") as first:
        handle = harness.run("Hello", detached=True)
        assert harness.model.wait_for_requests(1)
        with helping(harness):
            first.process.send_signal(signal.SIGTERM)
            end = handle.result(30)
            assert is_gone_within(first.process, DRAIN_S + BEYOND_S)

    assert (end.status, end.output) == ("succeeded", "Three.")
    assert len(harness.model.requests) == 2
    assert crashes(harness, handle) == 0


def test_runs_that_were_not_begun_wait_for_the_next_worker(harness: AppHarness) -> None:
    harness.model.respond = lambda body: Turn(text=["a ", "b"], first_delay_s=0.5)

    with worker(harness, "first") as first:
        handles = [harness.run("Hello", detached=True) for _ in range(8)]
        first.process.send_signal(signal.SIGTERM)
        assert is_gone_within(first.process, DRAIN_S + BEYOND_S)
    with helping(harness):
        ends = [handle.result(30) for handle in handles]

    assert {end.status for end in ends} == {"succeeded"}
    assert [crashes(harness, handle) for handle in handles] == [0] * 8


def test_no_wake_up_is_lost_with_a_worker_that_drains_a_backlog(harness: AppHarness) -> None:
    for round_number in range(ROUNDS):
        with worker(harness, f"worker-{round_number}") as draining:
            handles = [harness.run("Hello", detached=True) for _ in range(30)]
            handles[4].result(30)
            draining.process.send_signal(signal.SIGTERM)
            assert is_gone_within(draining.process, DRAIN_S + BEYOND_S)
        assert harness.runner.journal.live.relay.settle(10)

        assert unannounced(harness) == set()


def unannounced(harness: AppHarness) -> set[str]:
    """Return the queued runs that no message names, so that a worker finds them only when it polls SQL."""
    key = f"{harness.runner.journal.live.keys.prefix}{harness.settings.queue}"
    with redis.Redis.from_url(str(harness.settings.redis_url)) as client:
        texts: list[Any] = list(client.lrange(key, 0, -1))
    items = [orjson.loads(rewrite_item(text, harness.settings.queue)) for text in texts]
    bodies = [orjson.loads(base64.b64decode(item["body"])) for item in items]
    with harness.runner.journal.database.read() as connection:
        queued = set(connection.execute(select(runs.c.id).where(runs.c.status == "queued")).scalars())
    return queued - {wire["run_id"] for ((wire, *_), *_) in bodies}


def test_a_killed_process_is_noticed_by_its_neighbour_before_the_lease_ends(harness: AppHarness) -> None:
    harness.model.script([Turn(text=["lost ", "words"], stall_after=2), Turn(text="The whole answer.")])

    with worker(harness, "first") as first, worker(harness, "second") as second:
        handle = harness.run("Hello", detached=True)
        read_until_it_speaks(handle)
        owner = _owner(harness, handle)
        victim = first if f"_{first.process.pid}_" in owner else second
        os.kill(victim.process.pid, signal.SIGKILL)
        began_s = time.monotonic()
        end = handle.result(60)

    assert (end.status, end.output) == ("succeeded", "The whole answer.")
    assert crashes(harness, handle) == 1
    assert time.monotonic() - began_s < 8.0


def _owner(harness: AppHarness, handle: RunHandle) -> str:
    with harness.runner.journal.database.read() as connection:
        return str(connection.execute(select(runs.c.owner).where(runs.c.id == handle.run_id)).scalar_one())
