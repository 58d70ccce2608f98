"""At any time one effective owner: who gets a run, when another may take it, and what that one says first."""

from __future__ import annotations

import threading
from dataclasses import replace

import orjson
import pytest
from sqlalchemy import select, update

from bus.identity.audit.recording import acting_with
from bus.identity.principals import disable, sign_in
from bus.journal.approvals import Decision, Question
from bus.journal.decisions.decisions import decide
from bus.journal.log.commit import Commit
from bus.journal.log.events import undelivered
from bus.journal.ownership.leases import beat, requests
from bus.journal.records.steps import StepStarted
from bus.journal.states.codes import Reason
from bus.journal.states.owned import RESERVE
from bus.journal.states.owned import reserve as reserve_on
from bus.journal.states.release import Release
from bus.journal.unowned.transitions import lock_run, write
from bus.payloads import Payload, StatusPayload
from config.database.tables import runs, threads
from config.identity.principal import Principal, Role
from tests.bus.journal_harness import JournalHarness, Owner, cancel, claim
from tests.bus.questions import question
from tests.bus.racing import at_once


def test_a_claim_makes_an_owner_and_gives_numbers(harness: JournalHarness):
    accepted = harness.accept(metadata={"a": 1}, detached=True)

    lease = harness.claim(accepted.run_id, "own_1")

    assert lease is not None
    assert (lease.fence, lease.next_seq, lease.reserved_to, lease.turn) == (1, 3, 1 + RESERVE, 1)
    assert (lease.observers, lease.metadata, lease.detached) == (("sse",), {"a": 1}, True)
    row = harness.run_row(accepted.run_id)
    assert (row.status, row.owner, row.fence, row.reserved_to) == ("running", "own_1", 1, 1 + RESERVE)
    assert harness.rows(select(threads.c.open_run))[0][0] == accepted.run_id


def test_the_claim_is_an_event(harness: JournalHarness):
    lease = harness.claim(harness.accept().run_id)

    assert lease is not None
    _, line = harness.lines(lease.run_id)
    claim_event = orjson.loads(line.data)
    assert (line.seq, claim_event["type"], claim_event["status"], claim_event["attempt"]) == (2, "status", "running", 1)
    assert [payload.seq for payload in lease.first_events] == [2]


def test_one_of_fifty_gets_it(harness: JournalHarness):
    run_id = harness.accept().run_id
    number = 50 if harness.database.is_sqlite else 25

    leases = at_once(number, lambda i: harness.claim(run_id, f"own_{i}"))

    (lease,) = [lease for lease in leases if lease is not None]
    assert harness.run_row(run_id).owner == lease.owner
    assert harness.run_row(run_id).fence == 1


def test_only_the_oldest_open_run_of_a_thread_can_be_had(harness: JournalHarness):
    first, second = (harness.accept(thread_id="mine") for _ in range(2))

    assert harness.claim(second.run_id) is None
    owner = harness.own(first.run_id)
    assert harness.claim(second.run_id) is None
    harness.do(owner.end())

    assert owner.woken == [second.run_id]
    assert harness.claim(second.run_id) is not None


def test_a_run_that_waits_keeps_its_thread(harness: JournalHarness):
    first, second = (harness.accept(thread_id="mine") for _ in range(2))
    with harness.database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == first.run_id).values(status="waiting"))

    assert harness.claim(first.run_id) is None
    assert harness.claim(second.run_id) is None


def test_an_ended_or_unknown_run_gives_nothing(harness: JournalHarness):
    owner = harness.own()
    harness.do(owner.end())

    assert harness.claim(owner.lease.run_id) is None
    assert harness.claim("run_nobody_knows") is None
    assert harness.run_row(owner.lease.run_id).fence == 1


def test_a_lease_that_lives_is_respected(harness: JournalHarness):
    owner = harness.own()

    assert harness.claim(owner.lease.run_id, "own_2") is None


def test_a_lapsed_lease_is_taken_with_a_higher_fence_above_every_number_given_out(harness: JournalHarness):
    lease = harness.claim(harness.accept().run_id, "own_1", lease_s=-0.001)
    assert lease is not None

    taken = harness.claim(lease.run_id, "own_2")

    assert taken is not None
    assert (taken.fence, taken.next_seq) == (2, lease.reserved_to + 3)
    assert [payload.event_type for payload in taken.first_events] == ["withdrawn", "status"]
    assert taken.reserved_to == lease.reserved_to + RESERVE


def test_an_expired_lease_is_left_to_the_reaper_which_alone_counts_crashes(harness: JournalHarness):
    lease = harness.claim(harness.accept().run_id, "own_1", lease_s=-0.001)
    assert lease is not None
    before = harness.run_row(lease.run_id)

    assert claim(harness.database, lease.run_id, "own_2", 60.0) is None

    assert harness.run_row(lease.run_id) == before


def test_a_new_owner_first_withdraws_what_sql_does_not_have(harness: JournalHarness):
    owner = harness.own()
    harness.do(owner.say("a", "b"))
    harness.do(owner.message())
    harness.do(owner.say("lost", "text", message_id="msg_2"))
    harness.expire_lease(owner.lease.run_id)

    harness.own(owner.lease.run_id, "own_2")

    (withdrawn,) = [line for line in harness.lines(owner.lease.run_id) if line.type == "withdrawn"]
    assert withdrawn.seq == owner.lease.reserved_to + 1
    assert withdrawn.withdrawn_ranges == [(6, owner.lease.reserved_to)]


def test_sealed_pieces_of_no_message_are_withdrawn_too(harness: JournalHarness):
    owner = harness.own()
    harness.do(owner.say("sealed", "pieces"))
    harness.do(owner.writer._seal_all())
    harness.expire_lease(owner.lease.run_id)

    harness.own(owner.lease.run_id, "own_2")

    lines = harness.lines(owner.lease.run_id)
    assert [line.seq for line in lines] == [1, 2, 3, 4, 1002, 1003]
    assert lines[4].withdrawn_ranges == [(3, 1001)]


def test_nothing_is_withdrawn_twice(harness: JournalHarness):
    run_id = harness.accept().run_id
    for owner in ("own_1", "own_2", "own_3"):
        harness.own(run_id, owner)
        harness.expire_lease(run_id)

    declared = [line.withdrawn_ranges for line in harness.lines(run_id) if line.type == "withdrawn"]
    assert declared == [[(3, 1001)], [(1004, 2001)]]


def test_the_first_owner_missed_nothing(harness: JournalHarness):
    lease = harness.claim(harness.accept().run_id)

    assert lease is not None
    assert lease.undelivered == ()


def test_a_new_owner_is_given_what_was_written_without_one(harness: JournalHarness):
    owner, open_questions = waiting(harness, 2)
    for open_question in open_questions:
        answered(harness, owner.lease.run_id, open_question.id)

    taken = harness.claim(owner.lease.run_id, "own_2")

    assert taken is not None
    assert [payload.event_type for payload in taken.undelivered] == ["approval", "approval", "status"]
    assert [payload.seq for payload in taken.undelivered] == [6, 7, 8]
    delivered = [
        payload.seq
        for payload in (*owner.lease.first_events, *owner.delivered, *taken.undelivered, *taken.first_events)
    ]
    assert delivered == [line.seq for line in harness.lines(owner.lease.run_id, 1)]


def test_what_an_owner_was_given_no_later_one_is_given(harness: JournalHarness):
    owner, (open_question,) = waiting(harness)
    answered(harness, owner.lease.run_id, open_question.id)
    harness.own(owner.lease.run_id, "own_2")
    harness.expire_lease(owner.lease.run_id)

    taken = harness.claim(owner.lease.run_id, "own_3")

    assert taken is not None
    assert taken.undelivered == ()


@pytest.mark.parametrize("has_answer", [True, False])
def test_an_owner_of_a_release_without_the_column_was_the_last_one_too(harness: JournalHarness, has_answer: bool):
    owner, open_question = harness.own(), question()
    run_id = owner.lease.run_id
    step = StepStarted(id="stp_1", kind="model", name="demo", arguments_digest="a", idempotency_key="m")
    harness.do(owner.writer.commit(Commit(started=[step])))
    harness.do(owner.say("Ge", "fragt"))
    harness.do(owner.message())
    harness.do(
        owner.writer.commit(
            Commit(release=Release(status="waiting", reason=Reason.APPROVAL, questions=(open_question,)))
        )
    )
    with harness.database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == run_id).values(owned_fence=0))
    if has_answer:
        answered(harness, run_id, open_question.id)
    else:
        cancel(harness.database, Principal(), run_id, "ann")

    row = harness.run_row(run_id)
    with harness.database.read() as connection:
        missed = undelivered(connection, run_id, row.owned_fence, row.fence + 1)

    assert [payload.event_type for payload in missed] == (["approval", "status"] if has_answer else ["control", "end"])


@pytest.mark.parametrize("status", ["queued", "running"])
def test_no_event_makes_an_owner_whatever_it_says(harness: JournalHarness, status: str):
    owner, _ = waiting(harness)
    with harness.database.write() as connection:
        row = lock_run(connection, owner.lease.run_id)
        assert row is not None
        unowned = StatusPayload(status=status, reason='{"status":"running"}')
        write(connection, row, Commit(events=[unowned]), status="queued")

    taken = harness.claim(owner.lease.run_id, "own_2")

    assert taken is not None
    assert [payload.seq for payload in taken.undelivered] == [5]


def waiting(harness: JournalHarness, questions: int = 1) -> tuple[Owner, list[Question]]:
    """Return the owner that let its run go to wait for answers, and what it asked."""
    owner, open_questions = harness.own(), [question() for _ in range(questions)]
    release = Release(status="waiting", reason=Reason.APPROVAL, questions=tuple(open_questions))
    events: list[Payload] = [
        *(open_question.payload() for open_question in open_questions),
        StatusPayload(status="waiting", reason="approval"),
    ]
    harness.do(owner.writer.commit(Commit(events=events, release=release)))
    return owner, open_questions


def answered(harness: JournalHarness, run_id: str, approval_id: str) -> None:
    decide(harness.database, Principal(), run_id, approval_id, Decision(decision="take_as_done"), by="ann")


def test_on_sqlite_a_lease_runs_by_the_machines_boot_clock(
    small_harness: JournalHarness, monkeypatch: pytest.MonkeyPatch
):
    from config.database import engine as databases

    now = [1_000_000]
    monkeypatch.setattr(databases, "boot_ms", lambda: now[0])
    run_id = small_harness.accept().run_id
    assert small_harness.claim(run_id, "own_1", lease_s=15) is not None

    now[0] += 15_000
    assert small_harness.claim(run_id, "own_2") is None
    now[0] += 1
    assert small_harness.claim(run_id, "own_2") is not None


def test_on_sqlite_a_lease_of_another_boot_has_run_out(small_harness: JournalHarness, monkeypatch: pytest.MonkeyPatch):
    from config.database import engine as databases

    owner = small_harness.own()
    monkeypatch.setattr(databases, "boot_id", lambda: "another boot")

    assert small_harness.claim(owner.lease.run_id, "own_2") is not None


@pytest.mark.postgres
def test_a_row_that_another_process_has_locked_holds_up_no_other_lease(postgres_harness: JournalHarness):
    """As a web process does that was stopped in the middle of a transaction."""
    harness = postgres_harness
    owners = [harness.own(lease_s=-1) for _ in range(5)]
    lease_keys = [(owner.lease.run_id, owner.lease.fence) for owner in owners]
    with harness.database.write() as other:
        lock_run(other, lease_keys[2][0])
        heartbeats = beat(harness.database, "own_1", 60, lease_keys)

    assert {heartbeat.run_id for heartbeat in heartbeats} == {run_id for run_id, _ in lease_keys}, (
        "none of them was lost"
    )
    claimed = [harness.claim(run_id, "own_2") is not None for run_id, _ in lease_keys]
    assert claimed == [False, False, True, False, False], "only the locked one's lease was not extended"


@pytest.mark.postgres
def test_a_row_that_is_locked_for_a_moment_is_extended_by_the_same_heartbeat(postgres_harness: JournalHarness):
    harness = postgres_harness
    owner = harness.own(lease_s=-1)
    may_beat, may_commit = threading.Event(), threading.Event()

    def commit() -> None:
        with harness.database.write() as connection:
            lock_run(connection, owner.lease.run_id)
            may_beat.set()
            assert may_commit.wait(20)

    committing = threading.Thread(target=commit)
    committing.start()
    assert may_beat.wait(20)
    threading.Timer(0.15, may_commit.set).start()
    beat(harness.database, "own_1", 60, [(owner.lease.run_id, owner.lease.fence)])
    committing.join(20)

    assert harness.claim(owner.lease.run_id, "own_2") is None


@pytest.mark.postgres
def test_on_postgres_the_callers_clocks_do_not_count(postgres_harness: JournalHarness, monkeypatch: pytest.MonkeyPatch):
    from config.database import engine as databases

    owner = postgres_harness.own(lease_s=60)
    monkeypatch.setattr(databases, "boot_ms", lambda: 10**15)
    monkeypatch.setattr(databases, "epoch_ms", lambda: 10**15)
    monkeypatch.setattr(databases, "boot_id", lambda: "another boot")

    assert postgres_harness.claim(owner.lease.run_id, "own_2") is None


def test_a_beat_extends_what_is_still_owned_and_only_that(harness: JournalHarness):
    mine = harness.own(owner="own_1", lease_s=-1)
    theirs = harness.own(owner="own_2", lease_s=-1)
    ended = harness.own(owner="own_1")
    harness.do(ended.end())
    lease_keys = [(owner.lease.run_id, owner.lease.fence) for owner in (mine, theirs, ended)]

    heartbeats = beat(harness.database, "own_1", 60, lease_keys)

    assert [(b.run_id, b.fence, b.stop_requested) for b in heartbeats] == [(mine.lease.run_id, 1, False)]
    assert harness.claim(mine.lease.run_id, "own_3") is None
    assert harness.claim(theirs.lease.run_id, "own_3") is not None


def test_a_beat_extends_no_lease_of_another_fence(harness: JournalHarness):
    """This process took the run again, and its old writer does not know yet."""
    run_id = harness.own(owner="own_1").lease.run_id
    harness.expire_lease(run_id)
    harness.own(run_id, "own_1", lease_s=-1)
    other = harness.own(owner="own_1", lease_s=-1).lease.run_id

    heartbeats = beat(harness.database, "own_1", 60, [(run_id, 1), (other, 1)])

    assert [b.run_id for b in heartbeats] == [other]
    assert harness.claim(other, "own_3") is None
    assert harness.claim(run_id, "own_3") is not None


def test_nothing_to_beat_for_is_nothing_found(harness: JournalHarness):
    harness.own(owner="own_1")

    assert beat(harness.database, "own_1", 60, []) == []


def test_numbers_are_reserved_for_the_owner_only_and_asking_again_changes_nothing(harness: JournalHarness):
    owner = harness.own()
    run_id = owner.lease.run_id

    def reserve(fence: int, upto: int) -> bool:
        with harness.database.write() as connection:
            return reserve_on(connection, run_id, fence, upto)

    assert reserve(1, 5000)
    assert reserve(1, 5000)
    assert not reserve(1, 4000)
    assert not reserve(2, 6000)
    harness.do(owner.end())
    assert not reserve(1, 7000)

    assert harness.run_row(run_id).reserved_to == 3


def test_requests_are_those_of_ones_own_running_runs(harness: JournalHarness):
    mine, _, theirs = harness.own(), harness.own(), harness.own(owner="own_2")
    for owner in (mine, theirs):
        cancel(harness.database, Principal(), owner.lease.run_id, "ann")

    for owner in (mine, theirs):
        (request,) = requests(harness.database, owner.lease.owner)
        assert (request.run_id, request.kind) == (owner.lease.run_id, "stop")


def test_a_new_owner_learns_of_a_stop_requested_before(harness: JournalHarness):
    owner = harness.own()
    cancel(harness.database, Principal(), owner.lease.run_id, "ann")
    harness.do(owner.writer.commit(Commit(release=Release(status="queued", reason=Reason.DRAIN))))

    lease = harness.claim(owner.lease.run_id, "own_2")

    assert lease is not None
    assert lease.stop_requested


@pytest.mark.postgres
def test_claims_stops_and_starts_of_one_thread_do_not_deadlock(postgres_harness: JournalHarness):
    """All touch a run's row and its thread's; they have to do so in the same order."""
    harness = postgres_harness

    def do(index: int) -> object:
        if index % 3 == 0:
            return harness.accept(thread_id="mine")
        if index % 3 == 1:
            return harness.claim(run_id, f"own_{index}", lease_s=-1)
        return cancel(harness.database, Principal(), run_id, "ann")

    for _ in range(6):
        run_id = harness.accept(thread_id="mine").run_id
        outcomes = at_once(9, do)

        assert [each for each in outcomes if isinstance(each, Exception)] == []
        cancel_all(harness)


def cancel_all(harness: JournalHarness) -> None:
    for (run_id,) in harness.rows(select(runs.c.id)):
        cancel(harness.database, Principal(), run_id, "ann")


def test_a_principal_of_that_name_in_another_tenant_is_another_principal(harness: JournalHarness) -> None:
    ann, her_namesake = (Principal(tenant=tenant, id="ann", roles=frozenset(Role)) for tenant in ("acme", "zeta"))
    token = acting_with.set(("session", "ses_1"))
    run_id = harness.accept(principal=ann).run_id
    acting_with.reset(token)
    with harness.database.write() as connection:
        sign_in(connection, ann)
        sign_in(connection, replace(her_namesake, roles=frozenset()))
        disable(connection, "zeta", "ann", by="root")

    lease = harness.claim(run_id)

    assert lease is not None
    assert (lease.is_disabled, lease.roles) == (False, ann.roles)
