"""Claims: a few at a time, none while the database is slow, and one that waited in vain says so."""

from __future__ import annotations

import threading

import pytest

from bus.journal.ownership import admission
from bus.journal.ownership.admission import AT_ONCE, Admission, pool_problem
from config.database.errors import DatabaseBusy
from config.settings import Settings


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
    monkeypatch.setattr(admission, "PATIENCE_S", 0.1)
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
