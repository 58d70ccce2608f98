"""Limits on open and queued runs, in the commit that accepts a run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from bus.journal.acceptance.accept import Accepted, accept
from bus.journal.acceptance.run_limits import RunLimits
from bus.journal.errors import TOO_MANY_RUNS
from config.errors import Retryable
from config.identity.principal import LOCAL, Principal
from tests.bus.journal_harness import JournalHarness, cancel, claim, new_run
from tests.raising import raises

ALICE, BOB = Principal(tenant="acme", id="alice"), Principal(tenant="acme", id="bob")
OTHER = Principal(tenant="other", id="alice")


def start(harness: JournalHarness, principal: Principal, limits: RunLimits) -> str:
    return accept(harness.database, new_run(principal=principal), limits=limits).run_id


@pytest.mark.parametrize("name", ["principal_open_runs", "principal_queued_runs"])
def test_a_principal_has_as_many_runs_as_it_may(harness: JournalHarness, name) -> None:
    limits: RunLimits = {name: 2}
    start(harness, ALICE, limits), start(harness, ALICE, limits)

    with raises(TOO_MANY_RUNS) as caught:
        start(harness, ALICE, limits)

    assert caught.value.facts["limit"] == 2
    assert "'alice' has 2" in str(caught.value)
    start(harness, BOB, limits), start(harness, OTHER, limits)


@pytest.mark.parametrize("name", ["tenant_open_runs", "tenant_queued_runs"])
def test_a_tenant_has_as_many_runs_as_it_may(harness: JournalHarness, name) -> None:
    limits: RunLimits = {name: 2}
    start(harness, ALICE, limits), start(harness, BOB, limits)

    with raises(TOO_MANY_RUNS, match="tenant 'acme' has 2"):
        start(harness, ALICE, limits)

    start(harness, OTHER, limits)


def test_a_run_that_a_worker_has_is_open_and_not_queued(harness: JournalHarness) -> None:
    claim(harness.database, start(harness, LOCAL, {}), "worker", 60)

    start(harness, LOCAL, {"principal_queued_runs": 1})
    with raises(TOO_MANY_RUNS):
        start(harness, LOCAL, {"principal_open_runs": 2})


def test_a_run_that_ended_makes_room(harness: JournalHarness) -> None:
    first = start(harness, LOCAL, {"principal_open_runs": 1})
    cancel(harness.database, LOCAL, first, by="local")

    start(harness, LOCAL, {"principal_open_runs": 1})


def send(harness: JournalHarness, if_busy: Any, limit: int = 1, **fields: Any) -> Accepted:
    new = new_run("New", thread_id="talk", if_busy=if_busy, **fields)
    return accept(harness.database, new, limits={"principal_open_runs": limit})


@pytest.mark.parametrize(("if_busy", "delivered"), [("steer", "steered"), ("merge", "merged")])
def test_a_message_that_another_run_takes_needs_no_room(harness: JournalHarness, if_busy: str, delivered: str) -> None:
    first = send(harness, "enqueue").run_id

    taken = send(harness, if_busy)

    assert (taken.run_id, taken.delivery.delivered) == (first, delivered)


@pytest.mark.parametrize("if_busy", ["interrupt", "rollback"])
@pytest.mark.parametrize("state", ["queued", "running"])
def test_a_message_takes_the_place_of_the_run_that_is_stopped_for_it(
    harness: JournalHarness, state: str, if_busy: str
) -> None:
    first = send(harness, "enqueue").run_id
    if state == "running":
        claim(harness.database, first, "worker", 60)

    new = send(harness, if_busy)

    assert new.is_new
    assert harness.run_row(first).stop_requested
    if state == "running":  # its owner has not ended it, and it counts for all other messages
        for policy in ("interrupt", "enqueue"):
            with raises(TOO_MANY_RUNS):
                send(harness, policy)
        with raises(TOO_MANY_RUNS):
            start(harness, LOCAL, {"principal_open_runs": 2})


def test_what_is_refused_by_a_limit_stops_nothing(harness: JournalHarness) -> None:
    first, other = send(harness, "enqueue").run_id, start(harness, LOCAL, {})
    claim(harness.database, first, "worker", 60)

    with raises(TOO_MANY_RUNS):
        send(harness, "interrupt")

    assert not harness.run_row(first).stop_requested
    assert harness.run_row(other).status == "queued"


@pytest.mark.parametrize("name", ["principal_queued_runs", "tenant_queued_runs"])
def test_a_running_run_that_is_stopped_leaves_no_place_among_the_queued(harness: JournalHarness, name) -> None:
    claim(harness.database, send(harness, "enqueue").run_id, "worker", 60)
    start(harness, LOCAL, {})

    with raises(TOO_MANY_RUNS):
        accept(harness.database, new_run(thread_id="talk", if_busy="interrupt"), limits={name: 1})


def test_runs_started_at_once_exceed_a_limit_by_those_at_once_at_most(harness: JournalHarness) -> None:
    """On SQLite not at all; on Postgres by the transactions under way, of which there are ``at_once``."""
    at_once, limits = 4, {"principal_open_runs": 10}
    barrier = Barrier(at_once)

    def several(_: int) -> int:
        barrier.wait()
        accepted = 0
        for _ in range(10):
            try:
                start(harness, ALICE, limits)  # type: ignore[arg-type]  # a literal's key
                accepted += 1
            except Retryable:
                pass
        return accepted

    with ThreadPoolExecutor(at_once) as threads:
        accepted = sum(threads.map(several, range(at_once)))

    assert 10 <= accepted <= (10 if harness.database.is_sqlite else 10 + at_once - 1)
