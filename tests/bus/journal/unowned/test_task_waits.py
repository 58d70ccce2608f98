"""Waits for tasks, on each database: written with the step's start, kept until the call is over, resumed once."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from bus.journal.log.commit import Commit
from bus.journal.log.progress import read_progress
from bus.journal.ownership.leases import Claim, FirstCommit, claim_on
from bus.journal.ownership.reaper import due
from bus.journal.records.steps import StepEnded, StepStarted
from bus.journal.records.task_wait import TaskWait
from bus.journal.states.codes import Reason
from bus.journal.states.release import Release
from bus.journal.unowned.task_waits import KnownWait, TaskWaits
from bus.messages.look_at_tasks import LookAtTasksMessage
from config.database.tables import timers
from config.identity.principal import Principal
from tests.bus.journal_harness import JournalHarness, Owner, cancel
from tests.bus.questions import question

WAIT = TaskWait(task_id="key_1", application="shop", task="shop.refund", left_ms=60_000)


def started(harness: JournalHarness, wait: TaskWait = WAIT, **fields: Any) -> tuple[str, Owner]:
    """Return a run with one call whose task is begun, and its owner."""
    run_id = harness.accept().run_id
    owner = harness.own(run_id)
    defaults: dict[str, Any] = {
        "id": f"step_{run_id}",
        "kind": "tool",
        "name": "refund",
        "arguments_digest": "a",
        "effect": "checkable",
    }
    step = StepStarted(**(defaults | {"idempotency_key": "key_1", "call_id": "call_1", "wait": wait} | fields))
    harness.do(owner.writer.commit(Commit(started=[step])))
    return run_id, owner


def released(harness: JournalHarness, reason: Reason = Reason.TASK, wait: TaskWait = WAIT, **more: Any) -> str:
    run_id, owner = started(harness, wait)
    release = Release(status="waiting", reason=reason, **more)
    harness.do(owner.writer.commit(Commit(waiting={f"step_{run_id}": wait}, release=release)))
    return run_id


def waits(harness: JournalHarness) -> TaskWaits:
    return TaskWaits(harness.database, lambda written: None)


def known(harness: JournalHarness, run_id: str) -> KnownWait:
    [task_wait] = waits(harness).known(run_id)
    return task_wait


def status(harness: JournalHarness, run_id: str) -> tuple[str, str | None]:
    row = harness.run_row(run_id)
    return row.status, row.reason


def test_the_wait_is_written_with_the_start_of_the_call(harness: JournalHarness) -> None:
    run_id, _ = started(harness)

    task_wait = known(harness, run_id)

    assert (task_wait.wait.task_id, task_wait.wait.application, task_wait.wait.task) == ("key_1", "shop", "shop.refund")
    assert 50_000 < task_wait.wait.left_ms <= 60_000
    assert (task_wait.is_waiting, task_wait.is_given_up, task_wait.is_over) == (False, False, False), (
        "its owner is at work on it"
    )


def test_a_call_that_is_planned_has_none(harness: JournalHarness) -> None:
    run_id, _ = started(harness, wait=None, status="planned")  # type: ignore[arg-type]  # as for other tools

    assert waits(harness).known(run_id) == []


def test_the_next_owner_knows_the_task(harness: JournalHarness) -> None:
    run_id = released(harness)

    with harness.database.read() as connection:
        [step] = read_progress(connection, run_id).calls

    assert step.status == "waiting"
    assert step.wait is not None
    assert step.wait.task_id == "key_1"


def test_a_run_is_queued_once(harness: JournalHarness) -> None:
    run_id = released(harness)
    assert known(harness, run_id).is_waiting

    assert waits(harness).resume(run_id)
    assert not waits(harness).resume(run_id)

    assert status(harness, run_id) == ("queued", "task")
    assert not known(harness, run_id).is_waiting


def test_a_run_that_also_waits_for_a_person_stays(harness: JournalHarness) -> None:
    run_id = released(harness, Reason.APPROVAL, questions=(question(expires_in_s=60),))

    assert not waits(harness).resume(run_id)
    assert status(harness, run_id) == ("waiting", "approval")


def test_a_run_that_waits_for_code_stays(harness: JournalHarness) -> None:
    run_id = released(harness, Reason.CODE_VERSION, ends_ms=2**50)

    assert not waits(harness).resume(run_id)


def test_the_reaper_leaves_tasks_alone(harness: JournalHarness) -> None:
    run_id = released(harness, wait=TaskWait(task_id="key_1", application="shop", task="shop.refund", left_ms=-5000))

    assert known(harness, run_id).is_over
    assert run_id not in [due_id for due_id, _ in due(harness.database)]


def test_the_wait_stays_until_it_is_forgotten(harness: JournalHarness) -> None:
    run_id, owner = started(harness)
    harness.do(owner.writer.commit(Commit(ended=[StepEnded(id=f"step_{run_id}", status="unknown")])))

    task_wait = known(harness, run_id)
    assert (task_wait.is_given_up, task_wait.step_status) == (True, "unknown")
    waits(harness).forget([task_wait.step_id])

    assert waits(harness).known(run_id) == []
    assert harness.rows(select(timers).where(timers.c.run_id == run_id)) == []


def test_a_call_that_is_made_again_waits_for_another_task(harness: JournalHarness) -> None:
    run_id = released(harness)
    waits(harness).resume(run_id)
    again = TaskWait(task_id="key_1.2", application="shop", task="shop.refund", left_ms=60_000)

    with harness.database.write() as connection:
        lease = claim_on(connection, harness.database, run_id, "own_2", 60)
        assert lease is not None
        Claim(connection, lease).write(FirstCommit(waits={f"step_{run_id}": again}))

    assert known(harness, run_id).wait.task_id == "key_1.2"


def test_the_stop_of_a_run_that_waits_for_a_task_asks_workers_to_look(harness: JournalHarness) -> None:
    run_id = released(harness)

    written, again = (cancel(harness.database, Principal(), run_id, "ann") for _ in range(2))

    assert [(type(message), message.run_id) for message in written.messages] == [(LookAtTasksMessage, run_id)]
    assert (again.status, again.messages) == ("cancelled", ())
    assert known(harness, run_id).is_given_up, "the worker that looks finds what is to be revoked"


def test_the_stop_of_a_run_without_tasks_asks_workers_nothing(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id

    assert cancel(harness.database, Principal(), run_id, "ann").messages == ()
