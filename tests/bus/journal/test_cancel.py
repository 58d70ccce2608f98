"""A stop is asked for once, however often the request comes; with a key, the same request is one also much later."""

from __future__ import annotations

import pytest
from sqlalchemy import func, select

from bus.journal.errors import IDEMPOTENCY_CONFLICT, RunUnknown
from bus.journal.idempotency import IdempotencyKey
from bus.journal.unowned.transitions import CommitResult
from config.database.tables import controls, idempotency_keys
from config.identity.principal import Principal
from tests.bus.journal_harness import JournalHarness, assert_whole, cancel
from tests.bus.racing import at_once
from tests.raising import raises

ME = Principal()


def key(run_id: str, body: str = "a", name: str = "k") -> IdempotencyKey:
    return IdempotencyKey(key=name, method="POST", path=f"/v1/runs/{run_id}/cancel", body_digest=body * 64)


def stop(
    harness: JournalHarness, run_id: str, idempotency: IdempotencyKey | None = None, principal: Principal = ME
) -> CommitResult:
    return cancel(harness.database, principal, run_id, "ann", idempotency)


def count(harness: JournalHarness, table) -> int:
    return int(harness.rows(select(func.count()).select_from(table))[0][0])


def test_the_same_request_again_writes_nothing(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id

    first = stop(harness, run_id, key(run_id))
    before = harness.run_row(run_id)
    again = stop(harness, run_id, key(run_id))

    assert (first.status, [event.event_type for event in first.events]) == ("cancelled", ["control", "end"])
    assert (again.status, again.events, again.wake) == ("cancelled", (), None)
    assert harness.run_row(run_id) == before
    assert count(harness, idempotency_keys) == 1


def test_a_stop_of_an_owned_run_is_one_order_whatever_keys_it_comes_with(harness: JournalHarness) -> None:
    owner = harness.own()
    run_id = owner.lease.run_id

    for idempotency_key in (key(run_id), key(run_id), key(run_id, name="other"), None):
        assert stop(harness, run_id, idempotency_key).status == "running"

    assert count(harness, controls) == 1
    harness.do(owner.end("cancelled"))


def test_a_repeated_request_after_the_end_gets_the_end(harness: JournalHarness) -> None:
    owner = harness.own()
    run_id = owner.lease.run_id
    stop(harness, run_id, key(run_id))
    harness.do(owner.end("succeeded"))

    assert stop(harness, run_id, key(run_id)).status == "succeeded"
    assert_whole(harness.lines(run_id))


def test_the_same_key_with_another_body_is_refused(harness: JournalHarness) -> None:
    owner = harness.own()
    run_id = owner.lease.run_id
    stop(harness, run_id, key(run_id, "a"))

    with raises(IDEMPOTENCY_CONFLICT):
        stop(harness, run_id, key(run_id, "b"))

    assert count(harness, controls) == 1


def test_a_key_counts_for_one_run(harness: JournalHarness) -> None:
    first, second = harness.accept().run_id, harness.accept().run_id

    stop(harness, first, key(first))
    done = stop(harness, second, key(second))

    assert (done.status, len(done.events)) == ("cancelled", 2)


@pytest.mark.parametrize("principal", [Principal(id="eve"), Principal(tenant="other")])
def test_another_principals_request_uses_no_key_up(harness: JournalHarness, principal: Principal) -> None:
    run_id = harness.accept().run_id

    with pytest.raises(RunUnknown):
        stop(harness, run_id, key(run_id), principal)

    assert count(harness, idempotency_keys) == 0
    assert harness.run_row(run_id).status == "queued"


def test_one_request_that_comes_many_times_at_once_ends_the_run_once(harness: JournalHarness) -> None:
    run_id = harness.accept().run_id

    done = at_once(8, lambda _: stop(harness, run_id, key(run_id)))

    assert [outcome for outcome in done if isinstance(outcome, Exception)] == []
    assert sum(bool(outcome.events) for outcome in done) == 1
    assert count(harness, idempotency_keys) == 1
    assert_whole(harness.lines(run_id))
