"""A claim on terms: what it cannot take stays queued as it was, and the answer says on which terms it can."""

from __future__ import annotations

import threading
from dataclasses import replace

import orjson
import pytest
from sqlalchemy import Connection, update

from bus.journal.ownership import claims
from bus.journal.ownership.claims import AT_ONCE, Admission, ClaimTerms, Refused, Waiting, pool_problem, why_not
from bus.journal.ownership.leases import claim_on
from bus.journal.states.lease import Lease
from bus.queues import ServedQueues
from config.database.errors import DatabaseBusy
from config.database.tables import runs
from config.settings import Settings
from tests.bus.journal_harness import JournalHarness

DEFINITION = "assistant", "d" * 64
OTHERS = ServedQueues(default="callboard", names=("gpu",))


def tried(harness: JournalHarness, terms: ClaimTerms) -> Lease | Waiting | Refused:
    """Claim a run on these terms in a transaction of its own."""

    def claim(connection: Connection) -> Lease | Waiting | Refused:
        lease = claim_on(connection, harness.database, terms.run_id, "own_1", 60, terms)
        return lease if lease is not None else why_not(connection, harness.database, terms)

    with harness.database.write() as connection:
        return claim(connection)


def queued(harness: JournalHarness, crashes: int = 0, **note: bool) -> ClaimTerms:
    """Return the terms of a message for a queued run, which lost so many owners."""
    run_id = harness.accept().run_id
    notes = orjson.dumps([{"suspect": True} | note] * crashes).decode() if crashes else None
    with harness.database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == run_id).values(crashes=crashes, crashes_json=notes))
    return ClaimTerms(run_id=run_id, queues=replace(OTHERS, names=("callboard",)), definition=DEFINITION)


def test_on_its_terms_a_run_is_claimed(harness: JournalHarness) -> None:
    assert isinstance(tried(harness, queued(harness)), Lease)


def test_a_run_of_another_queue_waits_for_its_workers(harness: JournalHarness) -> None:
    terms = queued(harness)

    assert tried(harness, replace(terms, queues=OTHERS)) == Waiting("queue")
    assert harness.run_row(terms.run_id).fence == 0


def test_the_answer_to_another_definition_names_the_runs(harness: JournalHarness) -> None:
    terms = queued(harness)

    assert tried(harness, replace(terms, definition=("forged", "f" * 64))) == Waiting("definition", terms)
    assert isinstance(tried(harness, terms), Lease)


@pytest.mark.parametrize(
    ("crashes", "note", "flags"),
    [
        (2, {}, {"is_suspect": True}),
        (2, {"suspect": False}, {}),
        (3, {"alone": False}, {"is_suspect": True, "must_be_alone": True}),
    ],
)
def test_a_suspect_is_claimed_by_a_process_that_admits_it_as_one(
    harness: JournalHarness, crashes: int, note: dict[str, bool], flags: dict[str, bool]
) -> None:
    terms = queued(harness, crashes, **note)
    as_suspect = ClaimTerms(run_id=terms.run_id, queues=terms.queues, definition=DEFINITION, crashes=crashes, **flags)

    assert tried(harness, terms) == Waiting("suspect", as_suspect)
    assert harness.run_row(terms.run_id).status == "queued"
    assert isinstance(tried(harness, as_suspect), Lease)


def test_a_run_that_has_an_owner_is_refused(harness: JournalHarness) -> None:
    terms = queued(harness)
    harness.claim(terms.run_id, "own_2")

    assert tried(harness, terms) == Refused()
    assert tried(harness, replace(terms, run_id="run_that_does_not_exist")) == Refused()


def test_a_claim_is_admitted_while_the_database_is_quick() -> None:
    with Admission(lambda: 0.0, 1.0).place():
        pass


def test_claims_wait_while_a_write_takes_too_long_and_continue_after() -> None:
    delays_s = iter([5.0, 5.0, 0.1])

    with Admission(lambda: next(delays_s), 1.0).place():
        pass

    assert next(delays_s, None) is None


@pytest.mark.parity  # waits for seconds
def test_a_database_that_stays_slow_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "PATIENCE_S", 0.1)
    slow = Admission(lambda: 5.0, 1.0)

    for _ in range(2 * AT_ONCE):  # each gives its place back
        with pytest.raises(DatabaseBusy, match="stays queued"), slow.place():
            raise AssertionError("admitted")


def test_only_so_many_are_on_their_way_at_once() -> None:
    here, may_go = Admission(lambda: 0.0, 1.0), threading.Event()
    inside, most, lock = [0], [0], threading.Lock()
    is_full = threading.Event()

    def claim() -> None:
        with here.place():
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                if inside[0] == AT_ONCE:
                    is_full.set()
            may_go.wait(20)
            with lock:
                inside[0] -= 1

    threads = [threading.Thread(target=claim) for _ in range(3 * AT_ONCE)]
    for thread in threads:
        thread.start()
    assert is_full.wait(20)
    may_go.set()
    for thread in threads:
        thread.join(20)

    assert most[0] == AT_ONCE


@pytest.mark.parametrize(
    ("slots", "pool", "sentence"),
    [
        (200, 22, None),
        (200, 21, "CALLBOARD_SLOTS (200) lets 16 runs begin at once, and a process's 21 database connections"),
        (4, 10, None),
        (4, 9, "leave 3 for them beside its own 6, so runs begin later; allow 10, or fewer slots."),
    ],
)
def test_slots_that_do_not_fit_the_pool_are_reported(
    settings: Settings, slots: int, pool: int, sentence: str | None
) -> None:
    update = {"slots": slots, "database_pool_size": pool, "database_max_overflow": 0}
    problem = pool_problem(settings.model_copy(update=update))

    assert problem is None if sentence is None else problem is not None and sentence in problem
