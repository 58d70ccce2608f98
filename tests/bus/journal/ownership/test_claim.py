"""At any time one effective owner: who gets a run, when another may take it, and what that one says first."""

from __future__ import annotations

import threading

import orjson
import pytest
from sqlalchemy import select, update

from bus.journal.approvals import Decision, Question, decide
from bus.journal.endings import cancel
from bus.journal.leases import RESERVE, beat, claim, reserve_on, stops
from bus.journal.line import withdrawn_ranges
from bus.journal.ownerless import lock_run, write
from bus.journal.parting import Parting
from bus.journal.who import Who
from bus.journal.writer import Commit
from bus.payloads import Payload, StatusPayload
from config.tables import runs, threads
from tests.bus.asked import question
from tests.bus.journal.test_accept import at_once
from tests.bus.world import Owner, World


def test_a_claim_makes_an_owner_and_gives_numbers(world: World):
    accepted = world.accept(metadata={"a": 1}, detached=True)

    lease = world.claim(accepted.run_id, "own_1")

    assert lease is not None
    assert (lease.fence, lease.next_seq, lease.reserved_to, lease.turn) == (1, 3, 1 + RESERVE, 1)
    assert (lease.observers, lease.metadata, lease.detached) == (("sse",), {"a": 1}, True)
    row = world.run_row(accepted.run_id)
    assert (row.status, row.owner, row.fence, row.reserved_to) == ("running", "own_1", 1, 1 + RESERVE)
    assert world.rows(select(threads.c.open_run))[0][0] == accepted.run_id


def test_the_claim_is_an_event(world: World):
    lease = world.claim(world.accept().run_id)

    assert lease is not None
    _, line = world.lines(lease.run_id)
    said = orjson.loads(line.data)
    assert (line.seq, said["type"], said["status"], said["attempt"]) == (2, "status", "running", 1)
    assert [payload.seq for payload in lease.first_events] == [2]


def test_one_of_fifty_gets_it(world: World):
    run_id = world.accept().run_id
    number = 50 if world.database.is_sqlite else 25

    found = at_once(number, lambda i: world.claim(run_id, f"own_{i}"))

    (lease,) = [lease for lease in found if lease is not None]
    assert world.run_row(run_id).owner == lease.owner
    assert world.run_row(run_id).fence == 1


def test_only_the_oldest_open_run_of_a_thread_can_be_had(world: World):
    first, second = (world.accept(thread_id="mine") for _ in range(2))

    assert world.claim(second.run_id) is None
    owner = world.own(first.run_id)
    assert world.claim(second.run_id) is None
    world.do(owner.end())

    assert owner.woken == [second.run_id]
    assert world.claim(second.run_id) is not None


def test_a_run_that_waits_keeps_its_thread(world: World):
    first, second = (world.accept(thread_id="mine") for _ in range(2))
    with world.database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == first.run_id).values(status="waiting"))

    assert world.claim(first.run_id) is None
    assert world.claim(second.run_id) is None


def test_an_ended_or_unknown_run_gives_nothing(world: World):
    owner = world.own()
    world.do(owner.end())

    assert world.claim(owner.lease.run_id) is None
    assert world.claim("run_nobody_knows") is None
    assert world.run_row(owner.lease.run_id).fence == 1


def test_a_lease_that_lives_is_respected(world: World):
    owner = world.own()

    assert world.claim(owner.lease.run_id, "own_2") is None


def test_a_lapsed_lease_is_taken_with_a_higher_fence_above_every_number_given_out(world: World):
    lease = world.claim(world.accept().run_id, "own_1", lease_s=-0.001)
    assert lease is not None

    taken = world.claim(lease.run_id, "own_2")

    assert taken is not None
    assert (taken.fence, taken.next_seq) == (2, lease.reserved_to + 3)
    assert [payload.event_type for payload in taken.first_events] == ["withdrawn", "status"]
    assert taken.reserved_to == lease.reserved_to + RESERVE


def test_a_new_owner_first_withdraws_what_nobody_has(world: World):
    owner = world.own()
    world.do(owner.say("a", "b"))
    world.do(owner.message())
    world.do(owner.say("lost", "text", message_id="msg_2"))
    world.lapse(owner.lease.run_id)

    world.own(owner.lease.run_id, "own_2")

    (withdrawn,) = [line for line in world.lines(owner.lease.run_id) if line.type == "withdrawn"]
    assert withdrawn.seq == owner.lease.reserved_to + 1
    assert withdrawn_ranges(withdrawn) == [(6, owner.lease.reserved_to)]


def test_sealed_pieces_of_no_message_are_withdrawn_too(world: World):
    owner = world.own()
    world.do(owner.say("sealed", "pieces"))
    world.do(owner.writer._seal_all())
    world.lapse(owner.lease.run_id)

    world.own(owner.lease.run_id, "own_2")

    lines = world.lines(owner.lease.run_id)
    assert [line.seq for line in lines] == [1, 2, 3, 4, 1002, 1003]
    assert withdrawn_ranges(lines[4]) == [(3, 1001)]


def test_nothing_is_withdrawn_twice(world: World):
    run_id = world.accept().run_id
    for owner in ("own_1", "own_2", "own_3"):
        world.own(run_id, owner)
        world.lapse(run_id)

    declared = [withdrawn_ranges(line) for line in world.lines(run_id) if line.type == "withdrawn"]
    assert declared == [[(3, 1001)], [(1004, 2001)]]


def test_the_first_owner_missed_nothing(world: World):
    lease = world.claim(world.accept().run_id)

    assert lease is not None
    assert lease.unheard == ()


def test_a_new_owner_is_given_what_was_written_without_one(world: World):
    owner, asked = waiting(world, 2)
    for one in asked:
        answered(world, owner.lease.run_id, one.id)

    taken = world.claim(owner.lease.run_id, "own_2")

    assert taken is not None
    assert [(payload.event_type, payload.seq) for payload in taken.unheard] == [
        ("approval", 6), ("approval", 7), ("status", 8),
    ]  # fmt: skip
    told = [payload.seq for payload in (*owner.lease.first_events, *owner.told, *taken.unheard, *taken.first_events)]
    assert told == [line.seq for line in world.lines(owner.lease.run_id, 1)]


def test_what_an_owner_was_given_no_later_one_is_given(world: World):
    owner, (asked,) = waiting(world)
    answered(world, owner.lease.run_id, asked.id)
    world.own(owner.lease.run_id, "own_2")
    world.lapse(owner.lease.run_id)

    taken = world.claim(owner.lease.run_id, "own_3")

    assert taken is not None
    assert taken.unheard == ()


def test_a_word_in_an_event_is_not_taken_for_an_owner(world: World):
    owner, _ = waiting(world)
    with world.database.write() as connection:
        row = lock_run(connection, owner.lease.run_id)
        assert row is not None
        write(connection, row, [StatusPayload(status="queued", reason='{"status":"running"}')], status="queued")

    taken = world.claim(owner.lease.run_id, "own_2")

    assert taken is not None
    assert [payload.seq for payload in taken.unheard] == [5]


def waiting(world: World, questions: int = 1) -> tuple[Owner, list[Question]]:
    """Return the owner that let its run go to wait for answers, and what it asked."""
    owner, asked = world.own(), [question() for _ in range(questions)]
    parting = Parting(status="waiting", reason="approval", questions=tuple(asked))
    events: list[Payload] = [*(one.payload() for one in asked), StatusPayload(status="waiting", reason="approval")]
    world.do(owner.writer.commit(Commit(events=events, parting=parting)))
    return owner, asked


def answered(world: World, run_id: str, approval_id: str) -> None:
    decide(world.database, Who(), run_id, approval_id, Decision(decision="take_as_done"), by="ann")


def test_on_sqlite_a_lease_runs_by_the_machines_boot_clock(small_world: World, monkeypatch: pytest.MonkeyPatch):
    from config import database as databases

    now = [1_000_000]
    monkeypatch.setattr(databases, "boot_ms", lambda: now[0])
    run_id = small_world.accept().run_id
    assert small_world.claim(run_id, "own_1", lease_s=15) is not None

    now[0] += 15_000
    assert small_world.claim(run_id, "own_2") is None
    now[0] += 1
    assert small_world.claim(run_id, "own_2") is not None


def test_on_sqlite_a_lease_of_another_boot_has_run_out(small_world: World, monkeypatch: pytest.MonkeyPatch):
    from config import database as databases

    owner = small_world.own()
    monkeypatch.setattr(databases, "boot_id", lambda: "another boot")

    assert small_world.claim(owner.lease.run_id, "own_2") is not None


@pytest.mark.postgres
def test_a_row_that_another_process_has_locked_holds_up_no_other_lease(postgres_world: World):
    """As a web process does that was stopped in the middle of a transaction."""
    world = postgres_world
    owners = [world.own(lease_s=-1) for _ in range(5)]
    asked = [(owner.lease.run_id, owner.lease.fence) for owner in owners]
    with world.database.write() as other:
        lock_run(other, asked[2][0])
        found = beat(world.database, "own_1", 60, asked)

    assert {one.run_id for one in found} == {run_id for run_id, _ in asked}, "none of them was lost"
    claimed = [world.claim(run_id, "own_2") is not None for run_id, _ in asked]
    assert claimed == [False, False, True, False, False], "only the locked one's lease was not extended"


@pytest.mark.postgres
def test_a_row_that_is_locked_for_a_moment_is_extended_by_the_same_heartbeat(postgres_world: World):
    world = postgres_world
    owner = world.own(lease_s=-1)
    may_beat, may_commit = threading.Event(), threading.Event()

    def commit() -> None:
        with world.database.write() as connection:
            lock_run(connection, owner.lease.run_id)
            may_beat.set()
            assert may_commit.wait(20)

    committing = threading.Thread(target=commit)
    committing.start()
    assert may_beat.wait(20)
    threading.Timer(0.15, may_commit.set).start()
    beat(world.database, "own_1", 60, [(owner.lease.run_id, owner.lease.fence)])
    committing.join(20)

    assert world.claim(owner.lease.run_id, "own_2") is None


@pytest.mark.postgres
def test_on_postgres_the_callers_clocks_do_not_count(postgres_world: World, monkeypatch: pytest.MonkeyPatch):
    from config import database as databases

    owner = postgres_world.own(lease_s=60)
    monkeypatch.setattr(databases, "boot_ms", lambda: 10**15)
    monkeypatch.setattr(databases, "epoch_ms", lambda: 10**15)
    monkeypatch.setattr(databases, "boot_id", lambda: "another boot")

    assert postgres_world.claim(owner.lease.run_id, "own_2") is None


def test_a_beat_extends_what_is_still_owned_and_only_that(world: World):
    mine = world.own(owner="own_1", lease_s=-1)
    theirs = world.own(owner="own_2", lease_s=-1)
    ended = world.own(owner="own_1")
    world.do(ended.end())
    asked = [(owner.lease.run_id, owner.lease.fence) for owner in (mine, theirs, ended)]

    found = beat(world.database, "own_1", 60, asked)

    assert [(b.run_id, b.fence, b.stop_requested) for b in found] == [(mine.lease.run_id, 1, False)]
    assert claim(world.database, mine.lease.run_id, "own_3", 60) is None
    assert claim(world.database, theirs.lease.run_id, "own_3", 60) is not None


def test_a_beat_extends_no_lease_of_another_fence(world: World):
    """This process took the run again, and its old writer does not know yet."""
    run_id = world.own(owner="own_1").lease.run_id
    world.lapse(run_id)
    world.own(run_id, "own_1", lease_s=-1)
    other = world.own(owner="own_1", lease_s=-1).lease.run_id

    found = beat(world.database, "own_1", 60, [(run_id, 1), (other, 1)])

    assert [b.run_id for b in found] == [other]
    assert claim(world.database, other, "own_3", 60) is None
    assert claim(world.database, run_id, "own_3", 60) is not None


def test_nothing_to_beat_for_is_nothing_found(world: World):
    world.own(owner="own_1")

    assert beat(world.database, "own_1", 60, []) == []


def test_numbers_are_reserved_for_the_owner_only_and_asking_again_changes_nothing(world: World):
    owner = world.own()
    run_id = owner.lease.run_id

    def reserve(fence: int, upto: int) -> bool:
        with world.database.write() as connection:
            return reserve_on(connection, run_id, fence, upto)

    assert reserve(1, 5000)
    assert reserve(1, 5000)
    assert not reserve(1, 4000)
    assert not reserve(2, 6000)
    world.do(owner.end())
    assert not reserve(1, 7000)

    assert world.run_row(run_id).reserved_to == 3


def test_stops_are_those_of_ones_own_running_runs(world: World):
    mine, other, theirs = world.own(), world.own(), world.own(owner="own_2")
    for owner in (mine, theirs):
        cancel(world.database, Who(), owner.lease.run_id, "ann")

    assert stops(world.database, "own_1") == [mine.lease.run_id]
    assert other.lease.run_id not in stops(world.database, "own_1")


def test_whoever_claims_learns_of_a_stop_asked_before(world: World):
    owner = world.own()
    cancel(world.database, Who(), owner.lease.run_id, "ann")
    world.lapse(owner.lease.run_id)

    lease = world.claim(owner.lease.run_id, "own_2")

    assert lease is not None
    assert lease.stop_requested


@pytest.mark.postgres
def test_claims_stops_and_starts_of_one_thread_do_not_deadlock(postgres_world: World):
    """All touch a run's row and its thread's; they have to do so in the same order."""
    world = postgres_world

    def do(index: int) -> object:
        if index % 3 == 0:
            return world.accept(thread_id="mine")
        if index % 3 == 1:
            return world.claim(run_id, f"own_{index}", lease_s=-1)
        return cancel(world.database, Who(), run_id, "ann")

    for _ in range(6):
        run_id = world.accept(thread_id="mine").run_id
        found = at_once(9, do)

        assert [each for each in found if isinstance(each, Exception)] == []
        cancel_all(world)


def cancel_all(world: World) -> None:
    for (run_id,) in world.rows(select(runs.c.id)):
        cancel(world.database, Who(), run_id, "ann")
