"""An owner lets its run go: back to the queue or to wait; nothing of it is written after."""

from __future__ import annotations

import pytest
from sqlalchemy import func, select

from bus.journal.approvals import Decision
from bus.journal.decisions.decisions import decide
from bus.journal.errors import ApprovalOver, StaleOwner
from bus.journal.log.commit import Commit
from bus.journal.queries.runs import Runs
from bus.journal.records.steps import StepStarted, steps_of
from bus.journal.states.codes import Reason
from bus.journal.states.release import Release
from bus.payloads import StatusPayload
from config.database.tables import approvals, outbox, timers
from config.identity.principal import Principal
from config.redaction import redact
from tests.bus.faulty_commits import FaultyCommits
from tests.bus.journal_harness import JournalHarness, Owner, assert_whole, cancel
from tests.bus.questions import question

ME = Principal()
RELEASE = Release(status="queued", reason=Reason.DRAIN)


def release(owner: Owner) -> list[object]:
    return list(owner.harness.do(owner.writer.commit(Commit(events=[StatusPayload(status="moved")], release=RELEASE))))


def waits(owner: Owner, *open_questions: object) -> None:
    """Have an owner ask, and let its run wait."""
    questions = tuple(open_questions or (question(),))
    release = Release(status="waiting", reason=Reason.APPROVAL, detail="a person", questions=questions)  # type: ignore[arg-type]  # as they come
    events = [*(open_question.payload() for open_question in release.questions), StatusPayload(status="waiting")]
    owner.harness.do(owner.writer.commit(Commit(events=events, release=release)))


def count(harness: JournalHarness, table, run_id: str) -> int:
    return int(harness.rows(select(func.count()).select_from(table).where(table.c.run_id == run_id))[0][0])


def test_a_released_run_is_announced_and_counts_no_crash(harness: JournalHarness) -> None:
    owner = harness.own()
    run_id = owner.lease.run_id

    release(owner)

    row = harness.run_row(run_id)
    assert (row.status, row.reason, row.owner, row.lease_until, row.crashes) == ("queued", "drain", None, None, 0)
    assert (row.reserved_to, row.declared_to) == (3, 3)
    assert count(harness, outbox, run_id) == 2
    assert owner.woken == [run_id]


def test_the_next_owner_continues_right_behind_the_last_number(harness: JournalHarness) -> None:
    owner = harness.own()
    release(owner)

    following = harness.own(owner.lease.run_id, "own_2")
    harness.do(following.end())

    lines = harness.lines(owner.lease.run_id)
    assert_whole(lines)
    assert [line.seq for line in lines] == [1, 2, 3, 4, 5]
    assert [line.type for line in lines] == ["status", "status", "status", "status", "end"]


def test_pieces_of_no_message_are_withdrawn_when_the_run_is_let_go(harness: JournalHarness) -> None:
    owner = harness.own()
    harness.do(owner.say("half ", "a word"))

    release(owner)

    lines = harness.lines(owner.lease.run_id)
    assert [line.type for line in lines] == ["status", "status", "withdrawn", "status"]
    assert lines[2].withdrawn_ranges == [(3, 4)]


def test_nothing_is_written_after_a_run_was_let_go(harness: JournalHarness) -> None:
    owner = harness.own()
    release(owner)
    before = harness.run_row(owner.lease.run_id)

    with pytest.raises(StaleOwner):
        harness.do(owner.say("late"))
    with pytest.raises(StaleOwner):
        harness.do(owner.message())
    with pytest.raises(StaleOwner):
        release(owner)

    assert owner.writer.is_closed
    assert harness.run_row(owner.lease.run_id) == before


def test_who_lost_the_run_cannot_let_it_go(harness: JournalHarness) -> None:
    owner = harness.own()
    harness.expire_lease(owner.lease.run_id)
    following = harness.own(owner.lease.run_id, "own_2")

    with pytest.raises(StaleOwner):
        release(owner)

    assert count(harness, outbox, owner.lease.run_id) == 2, "of its accept, and of the reaper"
    harness.do(following.message())


def test_steps_that_were_not_begun_are_left_for_the_next_owner(harness: JournalHarness) -> None:
    owner = harness.own()
    run_id = owner.lease.run_id
    started = [
        StepStarted(id=f"stp_{n}", kind="tool", name="t", arguments_digest="a", idempotency_key=f"k{n}")
        for n in range(2)
    ]
    harness.do(owner.writer.commit(Commit(started=started)))

    harness.do(owner.writer.commit(Commit(planned=["stp_0"], unknown=["stp_1"], release=RELEASE)))

    with harness.database.read() as connection:
        assert [step["status"] for step in steps_of(connection, run_id)] == ["planned", "unknown"]


def test_a_waiting_run_asks_with_a_timer_and_is_not_announced(harness: JournalHarness) -> None:
    owner = harness.own()
    run_id = owner.lease.run_id

    waits(owner, question(), question())

    row = harness.run_row(run_id)
    assert (row.status, row.reason, row.detail, row.owner) == ("waiting", "approval", "a person", None)
    assert (count(harness, approvals, run_id), count(harness, timers, run_id), count(harness, outbox, run_id)) == (
        2,
        2,
        1,
    )
    assert owner.woken == []


def test_what_a_run_waits_for_is_kept_without_secrets(harness: JournalHarness) -> None:
    owner = harness.own()
    detail = "its tool said password=tr0ub4dor-and-3"
    release = Release(status="waiting", reason=Reason.CODE_VERSION, detail=detail)

    harness.do(owner.writer.commit(Commit(events=[StatusPayload(status="waiting")], release=release)))

    assert harness.run_row(owner.lease.run_id).detail == redact(detail) != detail


# --- a stop that comes between --------------------------------------------------------------------


def test_a_stop_that_comes_between_queues_the_run_instead(harness: JournalHarness) -> None:
    """A run that waits has no owner who would see the stop; the next owner sees it."""
    owner = harness.own()
    run_id = owner.lease.run_id
    cancel(harness.database, ME, run_id, "ann")

    waits(owner)

    assert harness.run_row(run_id).status == "queued"
    assert count(harness, outbox, run_id) == 2
    assert "approvals" not in Runs(harness.database).get(ME, run_id)
    lease = harness.claim(run_id, "own_2")
    assert lease is not None
    assert lease.stop_requested


def test_a_run_that_was_stopped_while_it_asked_takes_no_answer_from_its_next_owner(harness: JournalHarness) -> None:
    """One of two answers would have left it running for ever: its owner fenced off, and no lease to run out."""
    owner = harness.own()
    run_id = owner.lease.run_id
    cancel(harness.database, ME, run_id, "ann")
    open_question, other = question(), question()
    waits(owner, open_question, other)
    with pytest.raises(ApprovalOver, match="was stopped"):
        decide(harness.database, ME, run_id, open_question.id, Decision(decision="run_again"), by="ben")
    following = harness.own(run_id, "own_2")

    with pytest.raises(ApprovalOver, match="was stopped"):
        decide(harness.database, ME, run_id, open_question.id, Decision(decision="run_again"), by="ben")

    harness.do(following.end("cancelled"))
    assert harness.run_row(run_id).status == "cancelled"
    assert_whole(harness.lines(run_id))


# --- replies that are lost ------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["busy", "reply_lost"])
def test_letting_go_counts_once_whatever_becomes_of_the_reply(
    small_harness: JournalHarness, monkeypatch: pytest.MonkeyPatch, fault
) -> None:
    faults = [fault]
    FaultyCommits(small_harness.database, monkeypatch, lambda: faults.pop() if faults else None)
    owner = small_harness.own()
    run_id = owner.lease.run_id

    waits(owner)

    row = small_harness.run_row(run_id)
    assert (faults, row.status, row.commits) == ([], "waiting", 1)
    assert small_harness.kinds(run_id) == ["status", "status", "approval", "status"]
    assert (count(small_harness, approvals, run_id), owner.writer.is_closed) == (1, True)
