"""Whose turn it is: in the order of coming, urgent ones first, none overtakes, and a wait has an end."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from config.database.turn import FairLock


def waiting(turn: FairLock, order: list[str], name: str, *, is_urgent: bool = False) -> threading.Thread:
    """Return a thread that waits for the turn, notes its name and gives it back."""
    before = len(turn._waiting)

    def work() -> None:
        assert turn.take(20, is_urgent=is_urgent)
        order.append(name)
        turn.give_back()

    thread = threading.Thread(target=work)
    thread.start()
    while len(turn._waiting) == before:
        time.sleep(0.001)
    return thread


def test_urgent_ones_go_first_and_all_others_in_the_order_they_came() -> None:
    turn, order = FairLock(), list[str]()
    assert turn.take(1)

    threads = [waiting(turn, order, name) for name in "abc"]
    threads.append(waiting(turn, order, "urgent", is_urgent=True))
    turn.give_back()
    for thread in threads:
        thread.join(20)

    assert order == ["urgent", "a", "b", "c"]


def test_one_that_wants_it_again_at_once_stands_behind_those_that_waited() -> None:
    turn, order = FairLock(), list[str]()
    assert turn.take(1)
    thread = waiting(turn, order, "other")

    turn.give_back()
    assert turn.take(20)
    order.append("again")
    thread.join(20)

    assert order == ["other", "again"]


def test_a_wait_ends_and_leaves_nothing_behind() -> None:
    turn = FairLock()
    assert turn.take(1)

    assert not turn.take(0.01)
    assert not turn.take(0.01, is_urgent=True)
    turn.give_back()

    assert turn.take(0.01)


def test_a_wait_that_ctrl_c_ends_leaves_nothing_behind() -> None:
    """Else the turn would come to a thread that waits no more, and no thread of the process could write again."""
    turn = FairLock()
    assert turn.take(1)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            turn.take(20)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    turn.give_back()

    assert turn.take(0.01)


def test_one_at_a_time_whatever_the_waits() -> None:
    turn, inside, most = FairLock(), [0], [0]

    def work() -> None:
        for _ in range(50):
            if turn.take(0.0005):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.0002)  # others would come in now
                inside[0] -= 1
                turn.give_back()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert most[0] == 1
    assert turn.take(0)
