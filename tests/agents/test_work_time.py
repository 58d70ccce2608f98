"""A run's end and its row say how long it was worked on, beside how long it took."""

from __future__ import annotations

import time

from agents.testing import AgentKit, Call, Turn
from agents.tools.tool import tool
from bus.journal.approvals import Decision
from bus.payloads import ApprovalPayload, EndPayload

WAIT_S = 0.5


@tool(effect="unsafe", confirm=True)
def order(boxes: int) -> str:
    """Order something."""
    return f"ordered {boxes}"


def test_the_wait_for_a_person_is_no_work(kit: AgentKit) -> None:
    kit.agent(tools=[order])
    kit.model.script(Turn(calls=[Call(name="order", arguments={"boxes": 2})]), Turn(text="Done."))
    handle = kit.run()
    next(event for event in handle.events() if isinstance(event, ApprovalPayload))
    time.sleep(WAIT_S)  # a person who thinks
    (question,) = handle.approvals()
    handle.decide(question["approval_id"], Decision(decision="approve"), by="ann")

    end = handle.result(30)

    assert isinstance(end, EndPayload)
    assert end.duration_ms is not None
    assert end.work_ms is not None
    assert 0 < end.work_ms <= end.duration_ms - WAIT_S * 1000
    run = kit.runner.journal.readers.runs.get(kit.runner.principal, handle.run_id)
    assert run["work_ms"] == end.work_ms


def test_a_run_that_waits_for_nothing_works_all_the_time(kit: AgentKit) -> None:
    kit.agent()
    kit.model.script(Turn(text="Done."))

    end = kit.run().result(30)

    assert end.duration_ms is not None
    assert end.work_ms is not None
    assert end.duration_ms - 1000 < end.work_ms <= end.duration_ms
