"""The same wake-up fifty times at once: one owner, one log, and the others are done with it at once."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable

import pytest
from sqlalchemy import select

from agents.process import current_process
from bus.celery_app import Publisher
from bus.messages.run_agent import RunAgentMessage
from bus.payloads import StatusPayload
from config.database.tables import runs
from handlers.run_agent import run_agent
from tests.app_harness import AppHarness
from tests.bus.journal_harness import assert_whole
from tests.fleet import Worker
from tests.journeys.neighbour import run_row
from tests.model_server import ModelServer, Turn

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]

TIMES = 50


def message_of(harness: AppHarness, run_id: str) -> RunAgentMessage:
    with harness.runner.journal.database.read() as connection:
        row = connection.execute(select(runs).where(runs.c.id == run_id)).one()
    return RunAgentMessage(
        run_id=run_id,
        agent_id=row.agent_id,
        thread_id=row.thread_id,
        detached=True,
        definition_digest=row.definition_digest,
    )


def assert_one_owner(harness: AppHarness, run_id: str, text: str) -> None:
    handle = harness.runner.handle(run_id)
    events = list(handle.events())
    attempts = [event.attempt for event in events if isinstance(event, StatusPayload) and event.status == "running"]
    assert attempts == [1]
    assert len(harness.model.requests) == 1
    assert run_row(harness, handle).fence == 1
    assert handle.result(10).output == text
    assert_whole(list(harness.runner.journal.readers.follow_blocking("default", run_id, handle.thread_id, 0)))


def test_fifty_messages_from_the_queue(brisk_harness: AppHarness) -> None:
    brisk_harness.agent()
    brisk_harness.model.script([Turn(text=["once ", "and ", "for all"], pace=5), Turn(text="twice?")])
    log = brisk_harness.settings.state / "worker.log"

    handle = brisk_harness.run("Hello", detached=True)  # no worker has got it yet
    message, publish = message_of(brisk_harness, handle.run_id), Publisher(brisk_harness.settings)
    for _ in range(TIMES):
        publish(message)
    publish.close()
    with Worker(brisk_harness.settings, "--concurrency", str(TIMES), log=log):
        handle.result(60)
        for _ in range(TIMES):  # late ones too
            publish(message)
        assert brisk_harness.run("And another", detached=True).result(60).output == "twice?"
        publish.close()

    brisk_harness.model.requests.pop()
    assert_one_owner(brisk_harness, handle.run_id, "once and for all")


def test_a_run_that_outlasts_the_visibility_timeout_is_executed_once(brisk_harness: AppHarness) -> None:
    """Of a second, with the acknowledgements of Celery's Redis transport on: the run takes four."""
    brisk_harness.agent()
    brisk_harness.model.script([Turn(text=["one ", "execution ", "of ", "a ", "long ", "run"], pace=1.5)])
    state, options = brisk_harness.settings.state, ("-I", "tests.journeys.short_visibility")

    with (
        Worker(brisk_harness.settings, *options, log=state / "first.log"),
        Worker(brisk_harness.settings, *options, log=state / "second.log"),
    ):
        handle = brisk_harness.run("Hello", detached=True)
        handle.result(60)

    assert_one_owner(brisk_harness, handle.run_id, "one execution of a long run")


def test_fifty_threads_of_one_worker(open_harness: Callable[..., AppHarness]) -> None:
    harness = open_harness(lease_s=15.0, beat_s=5.0, reap_s=5.0)
    harness.agent()
    harness.model.script([Turn(text="Warm."), Turn(text=["once ", "and ", "for all"], first_delay_s=1.0)])
    harness.run("Warm up").result(120)
    harness.model.requests.clear()
    handle = harness.run("Hello", detached=True)
    wire, barrier, took_ms = message_of(harness, handle.run_id).to_wire(), threading.Barrier(TIMES), list[float]()

    def deliver() -> None:
        barrier.wait(20)
        began_s = time.monotonic()
        run_agent(wire)
        took_ms.append((time.monotonic() - began_s) * 1000)

    threads = [threading.Thread(target=deliver) for _ in range(TIMES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    *others, owner = sorted(took_ms)
    print(f"{len(others)} others returned: p50 {statistics.median(others):.0f} ms, p99 {others[-1]:.0f} ms")
    assert owner > 1000.0, "it worked the run off"
    assert others[-1] < 1000.0, "none waited for the owner"
    assert current_process().journal.owner.lease_manager.busy == 0
    assert_one_owner(harness, handle.run_id, "once and for all")
    assert isinstance(harness.model, ModelServer)
