"""A control for one status of a run: refused in another one, and as stale where the run left it before it was read."""

from __future__ import annotations

from typing import Any

import pytest

from bus.journal.controls import CONTROLS
from bus.journal.errors import CONTROL_REFUSED
from bus.journal.mailbox.control import control
from bus.journal.ownership.reaper import reap
from bus.journal.states.release import DRAINED
from bus.journal.unowned.transitions import CommitResult
from bus.payloads import ControlPayload, decode
from config.database.tables import controls
from config.identity.principal import Principal
from tests.bus.journal.test_mailbox_schedules import Worker
from tests.bus.journal_harness import JournalHarness, cancel
from tests.raising import raises

ME = Principal()
DATA: dict[str, Any] = {"steer": {"content": "In French."}, "set": {"priority": "high"}}


def ask(harness: JournalHarness, run_id: str, verb: str, expected_status: str | None = None) -> CommitResult:
    return control(
        *(harness.database, ME, run_id, CONTROLS[verb], "ann"), data=DATA.get(verb), expected_status=expected_status
    )


def answers(harness: JournalHarness, run_id: str) -> list[tuple[str, str, str | None]]:
    """Return what the run's log says of its controls: verb, state and reason, in order."""
    payloads = [decode(line.data) for line in harness.lines(run_id)]
    return [(p.verb, p.state, p.reason) for p in payloads if isinstance(p, ControlPayload)]


def lose(harness: JournalHarness, run_id: str) -> None:
    harness.expire_lease(run_id)
    reap(harness.database, run_id)


@pytest.mark.parametrize("verb", CONTROLS)
@pytest.mark.parametrize(
    ("status", "expected"), [("queued", "running"), ("running", "waiting"), ("cancelled", "running")]
)
def test_a_run_in_another_status_is_not_asked_and_the_sentence_names_its_own(
    harness: JournalHarness, verb: str, status: str, expected: str
) -> None:
    run_id = harness.accept().run_id
    if status == "running":
        harness.own(run_id)
    if status == "cancelled":
        cancel(harness.database, ME, run_id, "ann")
    before = harness.rows(controls.select())

    with raises(CONTROL_REFUSED, match=f"it is {status}.*you expected {expected}"):
        ask(harness, run_id, verb, expected)

    assert harness.rows(controls.select()) == before
    assert harness.run_row(run_id).status == status


@pytest.mark.parametrize(
    ("verb", "expected"), [("pause", "queued"), ("set", "queued"), ("cancel", "queued"), ("resume", "waiting")]
)
def test_in_the_expected_status_a_control_of_a_run_without_an_owner_is_done_at_once(
    harness: JournalHarness, verb: str, expected: str
) -> None:
    run_id = harness.accept().run_id
    if expected == "waiting":
        ask(harness, run_id, "pause")

    ask(harness, run_id, verb, expected)

    kind = "stop" if verb == "cancel" else verb
    assert answers(harness, run_id)[-1] == (kind, "consumed", None)


def test_the_owner_of_that_moment_does_what_it_is_asked(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id
    worker = Worker(harness, run_id, "own_1")
    for verb in ("steer", "set", "pause"):
        ask(harness, run_id, verb, "running")

    harness.do(worker.read())

    assert answers(harness, run_id) == [
        ("steer", "accepted", None),
        ("set", "consumed", None),
        ("pause", "accepted", None),
    ]
    assert harness.lines(run_id)[-2].data.count(b'"content":"priority high"') == 1
    assert worker.inbox.has_steers
    assert worker.inbox.release_as is not None


def test_the_next_owner_refuses_what_was_for_the_run_at_work_and_does_what_has_no_expectation(
    harness: JournalHarness,
) -> None:
    run_id = harness.own().lease.run_id
    for verb in ("steer", "set", "pause"):
        ask(harness, run_id, verb, "running")
    ask(harness, run_id, "steer")
    lose(harness, run_id)

    worker = Worker(harness, run_id, "own_2")
    harness.do(worker.begin(begins_step=True))
    harness.do(worker.read())

    assert answers(harness, run_id) == [
        ("steer", "consumed", None),
        *((verb, "refused", "stale") for verb in ("steer", "set", "pause")),
    ]
    assert (worker.inbox.has_steers, worker.inbox.release_as) == (False, None)
    assert harness.run_row(run_id).priority == 0


def test_what_is_stale_reaches_no_model_and_releases_no_run_before_its_answer_is_committed(
    harness: JournalHarness,
) -> None:
    run_id = harness.own().lease.run_id
    for verb in ("steer", "pause"):
        ask(harness, run_id, verb, "running")
    lose(harness, run_id)
    worker = Worker(harness, run_id, "own_2")

    async def receives() -> tuple[bool, bool]:
        for request in harness.unread(run_id):
            worker.inbox.receive(request)
        return worker.inbox.has_steers, worker.inbox.release_as is not None

    assert harness.do(receives()) == (False, False)


def test_what_an_owner_has_accepted_is_not_stale_for_the_next_one(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id
    first = Worker(harness, run_id, "own_1")
    ask(harness, run_id, "steer", "running")
    harness.do(first.read())
    lose(harness, run_id)

    harness.do(Worker(harness, run_id, "own_2").begin(begins_step=True))

    assert answers(harness, run_id) == [("steer", "accepted", None), ("steer", "consumed", None)]


def test_a_text_for_a_queued_run_is_got_by_the_claim_and_is_stale_where_the_run_was_paused_before(
    harness: JournalHarness,
) -> None:
    claimed, paused = harness.accept().run_id, harness.accept().run_id
    for run_id in (claimed, paused):
        ask(harness, run_id, "steer", "queued")

    harness.do(Worker(harness, claimed, "own_1").begin(begins_step=True))
    ask(harness, paused, "pause")

    assert answers(harness, claimed) == [("steer", "consumed", None)]
    assert answers(harness, paused) == [("steer", "refused", "stale"), ("pause", "consumed", None)]


def test_a_pause_that_is_stale_takes_the_place_of_no_other(harness: JournalHarness) -> None:
    run_id = harness.own().lease.run_id
    ask(harness, run_id, "pause", "running")
    lose(harness, run_id)
    worker = Worker(harness, run_id, "own_2")

    ask(harness, run_id, "pause")
    harness.do(worker.read())

    assert answers(harness, run_id) == [("pause", "refused", "stale"), ("pause", "accepted", None)]
    assert worker.inbox.release_as is not None


def test_what_no_owner_has_read_is_stale_where_the_run_ends_without_one(harness: JournalHarness) -> None:
    run_id = harness.own().lease.run_id
    for verb in ("steer", "set"):
        ask(harness, run_id, verb, "running")
    ask(harness, run_id, "set")
    lose(harness, run_id)

    cancel(harness.database, ME, run_id, "ann")

    assert answers(harness, run_id) == [
        ("steer", "refused", "stale"),
        ("set", "refused", "stale"),
        ("set", "refused", "ended"),
        ("stop", "consumed", None),
    ]
    assert harness.unread(run_id) == []


def test_a_run_that_was_drained_before_its_owner_read_it_refuses_it_at_the_next_claim(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id
    first = Worker(harness, run_id, "own_1")
    ask(harness, run_id, "pause", "running")
    first.inbox.release(DRAINED)
    harness.do(first.step())
    assert harness.run_row(run_id).status == "queued"

    worker = Worker(harness, run_id, "own_2")
    harness.do(worker.read())

    assert answers(harness, run_id) == [("pause", "refused", "stale")]
