"""A wake-up begins the run of the highest priority of its tenant and queue, and each wake-up begins one run."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection, event, select, text, update

from bus.journal.acceptance.accept import accept
from bus.journal.ownership.claims import ClaimTerms, Refused, Waiting, why_not
from bus.journal.ownership.leases import claim_on
from bus.journal.states.codes import Reason
from bus.journal.states.lease import Lease
from bus.journal.states.queue_order import PRIORITIES
from bus.journal.unowned.runs import UnownedRuns
from bus.queues import ServedQueues
from config.database.tables import runs
from config.errors import BadRequest
from config.identity.principal import Principal
from tests.bus.journal_harness import ALL_QUEUES, JournalHarness, Owner, new_run
from tests.examples import examples
from tests.raising import raises

DEFINITION = "assistant", "d" * 64
BOTH_QUEUES = ServedQueues(default="runs", names=("runs", "gpu"))
_ages = itertools.count(1)


def queued(harness: JournalHarness, priority: str = "normal", **fields: Any) -> str:
    """Accept a run, a millisecond after the one before, and return its id."""
    run_id = harness.accept(priority=priority, detached=True, **fields).run_id
    change(harness, run_id, created_ms=next(_ages))
    return run_id


def change(harness: JournalHarness, run_id: str, **values: Any) -> None:
    with harness.database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == run_id).values(**values))


def answered(harness: JournalHarness, terms: ClaimTerms) -> Lease | Waiting | Refused:
    def claim(connection: Connection) -> Lease | Waiting | Refused:
        lease = claim_on(connection, harness.database, terms.run_id, "own_1", 60, terms)
        return lease if lease is not None else why_not(connection, harness.database, terms)

    with harness.database.write() as connection:
        return claim(connection)


def terms_of(run_id: str, queues: ServedQueues = ALL_QUEUES) -> ClaimTerms:
    return ClaimTerms(run_id=run_id, queues=queues, definition=DEFINITION, in_order=True)


def woken(harness: JournalHarness, run_id: str, queues: ServedQueues = ALL_QUEUES) -> Lease | None:
    """Do what a worker does with the wake-up of a run, and return the lease of the run that begins."""
    terms = terms_of(run_id, queues)
    for _ in range(3):
        answer = answered(harness, terms)
        if not isinstance(answer, Waiting) or answer.terms is None:
            return answer if isinstance(answer, Lease) else None
        terms = answer.terms
    raise AssertionError("the terms of an answer are not met")


def begun(harness: JournalHarness, *run_ids: str, queues: ServedQueues = ALL_QUEUES) -> list[str]:
    """Deliver these wake-ups, and return which runs begin by them."""
    leases = [woken(harness, run_id, queues) for run_id in run_ids]
    return [lease.run_id for lease in leases if lease is not None]


def test_the_wake_ups_of_a_queue_begin_its_runs_by_priority_and_then_by_age(harness: JournalHarness) -> None:
    low, first, second = queued(harness, "low"), queued(harness), queued(harness)
    high = queued(harness, "high")

    assert begun(harness, low, first, second, high) == [high, first, second, low]
    assert begun(harness, low, first) == []


def test_another_tenant_and_another_queue_are_not_concerned(harness: JournalHarness) -> None:
    mine = queued(harness, "low")
    queued(harness, "high", principal=Principal(tenant="other"))
    queued(harness, "high", queue="gpu")

    assert begun(harness, mine, queues=BOTH_QUEUES) == [mine]


def test_the_default_queue_is_one_queue_also_where_an_agent_names_it(harness: JournalHarness) -> None:
    low, named = queued(harness, "low"), queued(harness, queue="runs")
    high = queued(harness, "high")

    assert begun(harness, low, named, high) == [high, named, low]


def test_a_late_wake_up_begins_no_run_of_a_queue_that_its_worker_does_not_serve(harness: JournalHarness) -> None:
    taken, waiting = queued(harness, queue="gpu"), queued(harness, queue="gpu")
    assert begun(harness, taken, queues=BOTH_QUEUES) == [taken]

    assert begun(harness, taken) == []
    assert begun(harness, taken, queues=BOTH_QUEUES) == [waiting]


def test_the_messages_of_a_thread_keep_their_order_and_what_waits_for_its_turn_delays_no_other_run(
    harness: JournalHarness,
) -> None:
    first, second = queued(harness, "low", thread_id="mine"), queued(harness, "high", thread_id="mine")
    other = queued(harness)

    assert begun(harness, second) == []  # it is woken by the end of the one before it
    assert begun(harness, first, other) == [other, first]


def test_a_run_that_waits_for_the_process_of_its_caller_is_left_to_it(harness: JournalHarness) -> None:
    low = queued(harness, "low")
    unowned = UnownedRuns(harness.database, "own_inline", 60.0, lambda _: None)
    held = new_run(priority="high")
    inline = accept(harness.database, held, lambda connection, run_id: unowned.defer_polling_on(connection, run_id))

    assert begun(harness, low) == [low]
    assert harness.claim(inline.run_id) is not None


def test_a_run_that_waited_for_code_is_left_to_the_worker_that_has_it_and_does_not_give_way(
    harness: JournalHarness,
) -> None:
    high, low = queued(harness, "high"), queued(harness, "low")
    for run_id in (high, low):
        change(harness, run_id, reason=Reason.CODE_VERSION)
    normal = queued(harness)

    assert begun(harness, normal) == [normal]
    assert begun(harness, low) == [low]
    assert begun(harness, high) == [high]


def test_a_suspect_is_begun_by_its_own_wake_up_and_does_not_give_way(harness: JournalHarness) -> None:
    high, low = queued(harness, "high"), queued(harness, "low")
    for run_id in (high, low):
        change(harness, run_id, crashes=2, crashes_json='[{"suspect": true}, {"suspect": true}]')
    normal = queued(harness)

    assert begun(harness, normal) == [normal]
    answer = answered(harness, terms_of(low))
    assert isinstance(answer, Waiting)
    assert answer.reason == "suspect"
    assert begun(harness, low) == [low]


def test_a_claim_that_is_not_in_order_takes_the_run_that_it_names(harness: JournalHarness) -> None:
    low, _high = queued(harness, "low"), queued(harness, "high")

    assert isinstance(answered(harness, replace(terms_of(low), in_order=False)), Lease)


def test_a_run_with_an_unknown_priority_is_not_accepted(harness: JournalHarness) -> None:
    with raises(BadRequest, match="low, normal or high"):
        queued(harness, "urgent")
    assert harness.rows(select(runs.c.id)) == []


def test_a_run_that_gave_way_is_begun_where_the_run_before_it_was_taken_meanwhile(harness: JournalHarness) -> None:
    low, high = queued(harness, "low"), queued(harness, "high")
    answer = answered(harness, terms_of(low))
    assert isinstance(answer, Waiting)
    assert answer.terms is not None
    assert answer.terms.run_id == high
    assert harness.claim(high, "own_2") is not None

    again = answered(harness, answer.terms)

    assert isinstance(again, Waiting)
    assert again.terms is not None
    assert begun(harness, again.terms.run_id) == [low]


@pytest.mark.parametrize("seed", range(examples(6)))
def test_whatever_happens_each_wake_up_begins_the_first_run_and_none_is_left_over(
    harness: JournalHarness, seed: int
) -> None:
    """Wake-ups arrive in any order; a run's end wakes its thread's next one."""
    rng = random.Random(seed)
    order: dict[str, tuple[int, int]] = {}
    tenant_of: dict[str, str] = {}
    threads: dict[str, list[str]] = {}
    wake_ups: list[str] = []
    owners: list[Owner] = []

    def heads(tenant: str) -> list[str]:
        at_work = {owner.lease.run_id for owner in owners}
        return [
            line[0] for line in threads.values() if line and line[0] not in at_work and tenant_of[line[0]] == tenant
        ]

    def arrive(run_id: str) -> None:
        able = heads(tenant_of[run_id])
        expected = min(able, key=order.__getitem__, default=None)
        if expected is not None and run_id in able and order[run_id][0] == order[expected][0]:
            expected = run_id  # of one priority, each is begun by its own wake-up
        if any(run_id in line[1:] for line in threads.values()):
            expected = None  # it is behind an open run of its thread
        lease = woken(harness, run_id)
        assert (lease.run_id if lease else None) == expected, f"seed {seed}"
        if lease is not None:
            owners.append(Owner(harness, lease))

    def end(owner: Owner) -> None:
        owners.remove(owner)
        harness.do(owner.end())
        line = next(line for line in threads.values() if owner.lease.run_id in line)
        line.remove(owner.lease.run_id)
        assert owner.woken == line[:1]
        wake_ups.extend(owner.woken)

    for number in range(30):
        kind = rng.choice(("accept", "accept", "wake", "wake", "end", "set"))
        if kind == "accept":
            priority, tenant = rng.choice(list(PRIORITIES)), rng.choice(("acme", "other"))
            thread_id = f"{tenant}-{rng.randrange(4)}"
            run_id = queued(harness, priority, thread_id=thread_id, principal=Principal(tenant=tenant))
            order[run_id], tenant_of[run_id] = (PRIORITIES[priority], number), tenant
            threads.setdefault(thread_id, []).append(run_id)
            wake_ups.append(run_id)
        elif kind == "wake" and wake_ups:
            arrive(wake_ups.pop(rng.randrange(len(wake_ups))))
        elif kind == "end" and owners:
            end(rng.choice(owners))
        elif kind == "set" and order:
            run_id, priority = rng.choice(list(order)), rng.choice(list(PRIORITIES))
            change(harness, run_id, priority=PRIORITIES[priority])
            order[run_id] = PRIORITIES[priority], order[run_id][1]

    while wake_ups or owners:
        for run_id in wake_ups[:]:
            wake_ups.remove(run_id)
            arrive(run_id)
        for owner in owners[:]:
            end(owner)
    assert harness.claimable() == []


def test_a_claim_looks_for_runs_of_a_higher_priority_in_the_index(harness: JournalHarness) -> None:
    database, run_id = harness.database, queued(harness)
    statements: list[tuple[str, Any]] = []

    @event.listens_for(database.engine, "before_cursor_execute")
    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        statements.append((statement, parameters))

    assert begun(harness, run_id) == [run_id]
    event.remove(database.engine, "before_cursor_execute", note)
    statement, parameters = next(pair for pair in statements if pair[0].startswith("UPDATE runs"))
    with database.write() as connection:
        if not database.is_sqlite:  # of a table without rows it would read that in any case
            connection.execute(text("SET LOCAL enable_seqscan = off"))
        explain = "EXPLAIN QUERY PLAN" if database.is_sqlite else "EXPLAIN"
        plan = "\n".join(str(row[-1]) for row in connection.exec_driver_sql(f"{explain} {statement}", parameters))

    if database.is_sqlite:
        assert plan.count("ix_runs_in_order (tenant=? AND queue=? AND status=? AND priority<?)") == 2
    else:
        assert plan.count("(priority < runs.priority)") == 2
