"""Each control is a row that one event answers, in order: with an owner, without one, and where the run ends before."""

from __future__ import annotations

import orjson
import pytest
from sqlalchemy import select

from bus.journal.controls import CONTROLS, PAUSE, RESUME, STEER
from bus.journal.errors import CONTROL_REFUSED, PAUSE_EXPIRED, TOO_MANY_CONTROLS, ControlsChanged
from bus.journal.log.commit import Commit
from bus.journal.log.progress import read_progress
from bus.journal.mailbox.control import control
from bus.journal.ownership.leases import requests
from bus.journal.ownership.reaper import reap
from bus.journal.records.control_requests import MAX_UNREAD
from bus.journal.run_end import end_run
from bus.journal.states.codes import STOPPED, Ending, Reason
from bus.journal.states.queue_order import PRIORITIES
from bus.journal.states.release import PAUSED
from bus.journal.unowned.runs import UnownedRuns
from bus.journal.unowned.transitions import CommitResult, lock_run
from bus.payloads import ControlPayload, EndPayload, StatusPayload, decode
from config.database.tables import controls, messages, runs
from config.errors import BadRequest
from config.identity.principal import Principal
from tests.bus.journal_harness import JournalHarness, cancel, fire_timers
from tests.raising import raises

ME = Principal()


def ask(harness: JournalHarness, run_id: str, verb: str, text: str | None = None) -> CommitResult:
    data = {"content": text} if text is not None else None
    return control(harness.database, ME, run_id, CONTROLS[verb], "ann", data=data)


def answers(harness: JournalHarness, run_id: str) -> list[tuple[str, str, str | None]]:
    """Return what the run's log says of its controls: verb, state and reason, in order."""
    payloads = [decode(line.data) for line in harness.lines(run_id)]
    return [(p.verb, p.state, p.reason) for p in payloads if isinstance(p, ControlPayload)]


def test_a_queued_run_is_paused_and_resumed_at_once_and_a_second_time_changes_nothing(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id

    paused = [ask(harness, run_id, "pause").status for _ in range(2)]
    row = harness.run_row(run_id)
    resumed = ask(harness, run_id, "resume").status

    assert (paused, resumed) == (["waiting", "waiting"], "queued")
    assert (row.status, row.reason, row.owner) == ("waiting", "paused", None)
    assert answers(harness, run_id) == [("pause", "consumed", None), ("resume", "consumed", None)]
    with raises(CONTROL_REFUSED):
        ask(harness, run_id, "resume")


def test_an_owner_leaves_a_paused_run_with_the_answer_and_the_next_one_is_not_asked_again(
    harness: JournalHarness,
) -> None:
    owner = harness.own()
    run_id = owner.lease.run_id

    assert [ask(harness, run_id, "pause").status for _ in range(2)] == ["running", "running"]
    (request,) = requests(harness.database, "own_1")
    waits = StatusPayload(status="waiting", reason=Reason.PAUSED)
    harness.do(owner.writer.commit(Commit(events=[request.answer("consumed"), waits], release=PAUSED)))

    assert harness.run_row(run_id).status == "waiting"
    ask(harness, run_id, "resume")
    harness.own(run_id)
    assert requests(harness.database, "own_1") == []


def test_a_resumption_takes_back_a_pause_that_the_owner_has_not_come_to(harness: JournalHarness) -> None:
    owner = harness.own()
    run_id = owner.lease.run_id
    ask(harness, run_id, "pause")
    (pause,) = requests(harness.database, "own_1")

    ask(harness, run_id, "resume")

    with pytest.raises(ControlsChanged):
        harness.do(owner.writer.commit(Commit(events=[pause.answer("consumed")], release=PAUSED)))
    (resumption,) = requests(harness.database, "own_1")
    assert resumption.data == {"supersedes": [pause.id], "reason": "superseded"}
    harness.do(owner.message())


def test_a_control_outlives_an_owner_that_is_lost(harness: JournalHarness) -> None:
    run_id = harness.own().lease.run_id
    ask(harness, run_id, "steer", "In French.")
    harness.expire_lease(run_id)
    reap(harness.database, run_id)

    harness.own(run_id, "own_2")

    (request,) = requests(harness.database, "own_2")
    assert (request.kind, request.content) == ("steer", "In French.")


def test_a_pause_that_was_taken_back_is_answered_where_the_run_ends_before_its_owner_came_to_it(
    harness: JournalHarness,
) -> None:
    owner = harness.own()
    for verb in ("pause", "resume"):
        ask(harness, owner.lease.run_id, verb)

    harness.do(owner.end("failed"))

    assert answers(harness, owner.lease.run_id) == [("pause", "refused", "superseded"), ("resume", "refused", "ended")]


def test_a_resumption_counts_for_a_pause_that_a_lost_owner_has_not_come_to(harness: JournalHarness) -> None:
    run_id = harness.own().lease.run_id
    ask(harness, run_id, "pause")
    harness.expire_lease(run_id)
    reap(harness.database, run_id)

    for verb in ("pause", "resume"):
        ask(harness, run_id, verb)

    assert harness.unread(run_id) == []
    assert [answer[:2] for answer in answers(harness, run_id)] == [("pause", "consumed")] * 2 + [("resume", "consumed")]


def test_a_run_that_is_being_stopped_is_not_paused(harness: JournalHarness) -> None:
    owner = harness.own()
    cancel(harness.database, ME, owner.lease.run_id, "ann")

    with raises(CONTROL_REFUSED, match="being stopped"):
        ask(harness, owner.lease.run_id, "pause")


def test_a_stop_counts_for_more_than_a_pause(harness: JournalHarness) -> None:
    owner = harness.own()
    run_id = owner.lease.run_id
    ask(harness, run_id, "pause")
    cancel(harness.database, ME, run_id, "ann")
    pause = requests(harness.database, "own_1")[0]
    harness.do(owner.writer.commit(Commit(events=[pause.answer("consumed")], release=PAUSED)))

    assert harness.run_row(run_id).status == "queued"
    assert harness.own(run_id).lease.stop_requested


@pytest.mark.parametrize("verb", ["pause", "resume", "steer"])
def test_a_run_that_ended_is_asked_nothing_and_the_sentence_says_what_to_do(harness: JournalHarness, verb: str) -> None:
    owner = harness.own()
    harness.do(owner.end())

    with raises(CONTROL_REFUSED, match="send a message to its thread"):
        ask(harness, owner.lease.run_id, verb, "Hm.")
    assert harness.rows(select(controls)) == []


def test_a_run_does_not_succeed_beside_a_text_that_its_model_has_not_got(harness: JournalHarness) -> None:
    owner = harness.own()
    ask(harness, owner.lease.run_id, "steer", "In French.")

    with pytest.raises(ControlsChanged):
        harness.do(owner.writer.commit(Commit(events=[EndPayload(status="succeeded")])))

    assert harness.run_row(owner.lease.run_id).status == "running"
    harness.do(owner.message())


@pytest.mark.parametrize("is_owned", [True, False])
def test_the_texts_of_a_stopped_run_are_shown_as_not_delivered(harness: JournalHarness, is_owned: bool) -> None:
    owner = harness.own()
    run_id = owner.lease.run_id
    ask(harness, run_id, "steer", "In French.")
    if not is_owned:
        harness.expire_lease(run_id)

    cancel(harness.database, ME, run_id, "ann")
    if is_owned:
        harness.do(owner.end("cancelled"))

    assert answers(harness, run_id)[-2:] == [("steer", "undelivered", "stopped"), ("stop", "consumed", None)]
    assert harness.lines(run_id)[-1].is_end
    assert harness.unread(run_id) == []


def test_a_text_that_the_runs_guardrails_have_not_seen_begins_no_turn(harness: JournalHarness) -> None:
    run_id = harness.own(harness.accept("First", thread_id="talk").run_id).lease.run_id
    digest = harness.run_row(run_id).definition_digest
    for text, version in (("Second", digest), ("Third", "of another version")):
        data = {"content": text, "checked_by": version}
        control(harness.database, ME, run_id, CONTROLS["steer"], "ann", data=data)
    harness.expire_lease(run_id)

    with harness.database.write() as connection:
        row = lock_run(connection, run_id)
        assert row is not None
        end_run(connection, row, Ending(status="failed", reason="crashes", note="Its workers were lost."))

    assert answers(harness, run_id) == [("steer", "consumed", "next_turn"), ("steer", "undelivered", "unchecked")]
    assert [row.title for row in harness.rows(select(runs).order_by(runs.c.turn))] == ["First", "Second"]


def test_the_texts_of_a_failed_run_begin_turns_in_the_order_in_which_they_arrived(harness: JournalHarness) -> None:
    owner = harness.own(harness.accept("First", thread_id="talk").run_id)
    ask(harness, owner.lease.run_id, "steer", "Second")
    harness.accept("Third", thread_id="talk")
    ask(harness, owner.lease.run_id, "steer", "Fourth")

    harness.do(owner.end("failed"))

    rows = harness.rows(select(runs).order_by(runs.c.turn))
    assert [row.title for row in rows] == ["First", "Second", "Third", "Fourth"]
    assert [row.status for row in rows] == ["failed", "queued", "queued", "queued"]
    assert harness.claimable() == [rows[1].id]
    texts = harness.rows(select(messages.c.data_json).where(messages.c.role == "user").order_by(messages.c.number))
    assert [orjson.loads(row.data_json)["content"] for row in texts] == [row.title for row in rows]
    assert answers(harness, owner.lease.run_id) == [("steer", "consumed", "next_turn")] * 2


def test_a_paused_run_keeps_what_it_is_given_and_says_so_at_once(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id
    ask(harness, run_id, "pause")

    written = ask(harness, run_id, "steer", "In French.")

    assert [event.event_type for event in written.events] == ["control"]
    assert answers(harness, run_id)[-1] == ("steer", "accepted", None)
    assert [request.content for request in harness.unread(run_id)] == ["In French."]


def test_a_paused_run_that_no_client_resumes_expires(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id
    ask(harness, run_id, "pause")

    fire_timers(harness.database, run_id)

    row = harness.run_row(run_id)
    assert (row.status, row.error_code) == ("failed", PAUSE_EXPIRED.code)


@pytest.mark.parity
def test_a_thousand_controls_at_once_are_refused_visibly_and_a_stop_gets_through(harness: JournalHarness) -> None:
    owner = harness.own()
    run_id = owner.lease.run_id
    for number in range(MAX_UNREAD):
        ask(harness, run_id, "steer", f"text {number}")

    for _ in range(1000 - MAX_UNREAD):
        with raises(TOO_MANY_CONTROLS):
            ask(harness, run_id, "steer", "one more")
    cancel(harness.database, ME, run_id, "ann")

    assert harness.run_row(run_id).stop_requested
    harness.do(owner.end("cancelled"))
    assert len(answers(harness, run_id)) == MAX_UNREAD + 1


@pytest.mark.parity
def test_a_paused_run_with_as_many_texts_as_may_be_is_limited_anew_and_resumed(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id
    ask(harness, run_id, "pause")
    for number in range(MAX_UNREAD):
        ask(harness, run_id, "steer", f"text {number}")
    with raises(TOO_MANY_CONTROLS):
        ask(harness, run_id, "steer", "one more")

    control(harness.database, ME, run_id, CONTROLS["set"], "ann", data={"priority": "high"})
    assert ask(harness, run_id, "resume").status == "queued"
    assert ask(harness, run_id, "pause").status == "waiting"
    ask(harness, run_id, "resume")

    assert len(harness.unread(run_id)) == MAX_UNREAD


def test_a_verb_is_done_where_nothing_is_left_to_do() -> None:
    assert (PAUSE.is_done("waiting"), RESUME.is_done("queued"), STEER.is_done("running")) == (True, True, False)
    assert all(verb.is_done(STOPPED.status) for verb in CONTROLS.values())


@pytest.mark.parametrize("before", ["queued", "paused", "lost"])
def test_limits_are_set_at_once_without_an_owner_and_the_last_ones_count(harness: JournalHarness, before: str) -> None:
    run_id = harness.accept().run_id
    if before == "paused":
        ask(harness, run_id, "pause")
    if before == "lost":
        harness.own(run_id)
        harness.expire_lease(run_id)

    for rounds in (2, 3):
        control(harness.database, ME, run_id, CONTROLS["set"], "ann", data={"max_iterations": rounds})

    with harness.database.read() as connection:
        assert read_progress(connection, run_id).max_rounds == (None if before == "lost" else 3)
    assert [request.max_rounds for request in harness.unread(run_id)] == ([2, 3] if before == "lost" else [])


@pytest.mark.parametrize("before", ["queued", "paused"])
def test_the_priority_of_a_run_without_an_owner_is_set_at_once(harness: JournalHarness, before: str) -> None:
    run_id = harness.accept().run_id
    if before == "paused":
        ask(harness, run_id, "pause")

    for data in ({"priority": "low"}, {"priority": "high", "max_iterations": 2}):
        control(harness.database, ME, run_id, CONTROLS["set"], "ann", data=data)

    assert harness.run_row(run_id).priority == PRIORITIES["high"]
    assert answers(harness, run_id)[-2:] == [("set", "consumed", None)] * 2


def test_the_priority_of_a_run_at_work_is_set_by_the_answer_of_its_owner(harness: JournalHarness) -> None:
    owner = harness.own()
    run_id = owner.lease.run_id
    control(harness.database, ME, run_id, CONTROLS["set"], "ann", data={"priority": "high"})
    (request,) = requests(harness.database, "own_1")
    before = harness.run_row(run_id).priority

    harness.do(owner.writer.commit(Commit(events=[request.answer("consumed")])))

    assert (before, harness.run_row(run_id).priority) == (PRIORITIES["normal"], PRIORITIES["high"])
    assert harness.lines(run_id)[-1].data.count(b'"content":"priority high"') == 1


def test_a_priority_that_came_too_late_is_refused_and_not_set(harness: JournalHarness) -> None:
    owner = harness.own()
    run_id = owner.lease.run_id
    control(harness.database, ME, run_id, CONTROLS["set"], "ann", data={"priority": "high"})
    harness.do(owner.end())

    assert answers(harness, run_id) == [("set", "refused", "ended")]
    assert harness.run_row(run_id).priority == PRIORITIES["normal"]
    with raises(CONTROL_REFUSED, match="it has ended as succeeded"):
        control(harness.database, ME, run_id, CONTROLS["set"], "ann", data={"priority": "low"})


def test_a_priority_sets_no_limit_and_leaves_the_one_that_was_set(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id
    for data in ({"max_iterations": 3}, {"priority": "high"}):
        control(harness.database, ME, run_id, CONTROLS["set"], "ann", data=data)

    with harness.database.read() as connection:
        assert read_progress(connection, run_id).max_rounds == 3


def test_an_unknown_priority_is_no_control(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id

    with raises(BadRequest, match="low, normal or high"):
        control(harness.database, ME, run_id, CONTROLS["set"], "ann", data={"priority": "urgent"})

    assert harness.rows(select(controls.c.id)) == []


def test_the_place_of_a_run_that_its_process_waits_to_begin_is_kept_where_its_priority_is_set(
    harness: JournalHarness,
) -> None:
    run_id = harness.accept_inline().run_id
    UnownedRuns(harness.database, "own_inline", 60.0, lambda _: None).defer_polling(run_id)

    control(harness.database, ME, run_id, CONTROLS["set"], "ann", data={"priority": "high"})

    assert harness.claimable() == []


def test_the_turn_of_a_text_that_came_too_late_has_the_priority_of_its_run(harness: JournalHarness) -> None:
    owner = harness.own(harness.accept(priority="high").run_id)
    ask(harness, owner.lease.run_id, "steer", "In French.")
    harness.do(owner.end("failed"))

    (row,) = harness.rows(select(runs).where(runs.c.status == "queued"))
    assert row.priority == PRIORITIES["high"]
