"""Wake-ups in a worker: that of a low run begins the high one, and one that found no slot begins the oldest run."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import select

from agents.handle import RunHandle
from agents.process import current_process
from agents.testing import AgentKit
from bus.messages.run_agent import RunAgentMessage
from bus.queues import served_queues
from config.database.tables import runs
from handlers.run_agent import work_on
from handlers.worker.run_agent_handler import Poller, RunAgentHandler
from handlers.worker.slots import SlotPool


def message(kit: AgentKit, run: RunHandle) -> RunAgentMessage:
    with kit.runner.journal.database.read() as connection:
        row: Any = connection.execute(select(runs).where(runs.c.id == run.run_id)).one()
    return RunAgentMessage.of_run(row)


def queued(kit: AgentKit, *priorities: str) -> list[RunHandle]:
    """Return queued runs of these priorities; each is a millisecond older than the next one."""
    handles = []
    for priority in priorities:
        handles.append(kit.run(detached=True, priority=priority))
        time.sleep(0.002)
    return handles


def test_the_wake_up_of_a_low_run_executes_the_high_one_and_that_ones_wake_up_the_low_one(kit: AgentKit) -> None:
    low, high = queued(kit, "low", "high")

    statuses = []
    for run in (low, high):
        work_on(message(kit, run))
        statuses.append((low.status(), high.status()))

    assert statuses == [("queued", "succeeded"), ("succeeded", "succeeded")]


def test_a_process_that_waits_for_its_run_begins_that_one(kit: AgentKit) -> None:
    queued(kit, "high")

    low = kit.run(priority="low")

    assert low.result(10).status == "succeeded"


def test_no_worker_takes_a_run_that_its_own_process_is_about_to_begin(kit: AgentKit) -> None:
    (low,) = queued(kit, "low")
    inline = kit.runner._inline
    inline.send = lambda *_: None  # type: ignore[method-assign]  # it is still loading its model
    high = kit.run(priority="high")

    work_on(message(kit, low))

    assert (low.status(), high.status()) == ("succeeded", "queued")


def test_where_no_priority_is_met_in_time_the_run_of_the_message_is_begun(kit: AgentKit, monkeypatch: Any) -> None:
    low, high = queued(kit, "low", "high")
    monkeypatch.setattr("handlers.worker.run_agent_handler.TERMS", 2)
    process = current_process()

    claimed = RunAgentHandler(process, served_queues(process.settings)).claim(message(kit, low))

    assert claimed is not None
    assert claimed.context.lease.run_id == low.run_id
    assert high.status() == "queued"
    claimed.held.close()


def test_a_wake_up_that_waited_for_a_slot_begins_the_oldest_run_where_its_own_was_begun(kit: AgentKit) -> None:
    taken, oldest, other = queued(kit, "normal", "normal", "normal")
    slots = SlotPool(2)
    poller, loop = Poller(current_process(), slots), kit.runner.journal.loop
    work_on(message(kit, taken))
    slots.want(taken.run_id)

    assert loop.run(poller.look(), 20) == 1
    assert oldest.result(10).status == "succeeded"
    assert other.status() == "queued"
