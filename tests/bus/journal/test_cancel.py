"""A stop is asked for once, however often the request comes; with a key, the same request is one also much later."""

from __future__ import annotations

import pytest
from sqlalchemy import func, select

from bus.journal.errors import IdempotencyConflict, RunUnknown
from bus.journal.idempotency import IdempotencyKey
from bus.journal.states.unowned import CommitResult
from bus.journal.who import Who
from config.database.tables import controls, idempotency_keys
from tests.bus.journal_harness import JournalHarness, assert_whole, cancel
from tests.bus.racing import at_once

ME = Who()


def key(run_id: str, body: str = "a", name: str = "k") -> IdempotencyKey:
    return IdempotencyKey(key=name, method="POST", path=f"/v1/runs/{run_id}/cancel", body_digest=body * 64)


def stop(world: JournalHarness, run_id: str, idempotency: IdempotencyKey | None = None, who: Who = ME) -> CommitResult:
    return cancel(world.database, who, run_id, "ann", idempotency)


def count(world: JournalHarness, table) -> int:
    return int(world.rows(select(func.count()).select_from(table))[0][0])


def test_the_same_request_again_writes_nothing(world: JournalHarness) -> None:
    run_id = world.accept().run_id

    first = stop(world, run_id, key(run_id))
    before = world.run_row(run_id)
    again = stop(world, run_id, key(run_id))

    assert (first.status, len(first.events)) == ("cancelled", 1)
    assert (again.status, again.events, again.wake) == ("cancelled", (), None)
    assert world.run_row(run_id) == before
    assert count(world, idempotency_keys) == 1


def test_a_stop_of_an_owned_run_is_one_order_whatever_keys_it_comes_with(world: JournalHarness) -> None:
    owner = world.own()
    run_id = owner.lease.run_id

    for one in (key(run_id), key(run_id), key(run_id, name="other"), None):
        assert stop(world, run_id, one).status == "running"

    assert count(world, controls) == 1
    world.do(owner.end("cancelled"))


def test_a_repeated_request_after_the_end_gets_the_end(world: JournalHarness) -> None:
    owner = world.own()
    run_id = owner.lease.run_id
    stop(world, run_id, key(run_id))
    world.do(owner.end("succeeded"))

    assert stop(world, run_id, key(run_id)).status == "succeeded"
    assert_whole(world.lines(run_id))


def test_the_same_key_with_another_body_is_refused(world: JournalHarness) -> None:
    owner = world.own()
    run_id = owner.lease.run_id
    stop(world, run_id, key(run_id, "a"))

    with pytest.raises(IdempotencyConflict):
        stop(world, run_id, key(run_id, "b"))

    assert count(world, controls) == 1


def test_a_key_counts_for_one_run(world: JournalHarness) -> None:
    first, second = world.accept().run_id, world.accept().run_id

    stop(world, first, key(first))
    done = stop(world, second, key(second))

    assert (done.status, len(done.events)) == ("cancelled", 1)


@pytest.mark.parametrize("who", [Who(principal="eve"), Who(tenant="other")])
def test_another_principals_request_uses_no_key_up(world: JournalHarness, who: Who) -> None:
    run_id = world.accept().run_id

    with pytest.raises(RunUnknown):
        stop(world, run_id, key(run_id), who)

    assert count(world, idempotency_keys) == 0
    assert world.run_row(run_id).status == "queued"


def test_one_request_that_comes_many_times_at_once_ends_the_run_once(world: JournalHarness) -> None:
    run_id = world.accept().run_id

    done = at_once(8, lambda _: stop(world, run_id, key(run_id)))

    assert [one for one in done if isinstance(one, Exception)] == []
    assert sum(bool(one.events) for one in done) == 1
    assert count(world, idempotency_keys) == 1
    assert_whole(world.lines(run_id))
