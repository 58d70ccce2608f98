"""The places of a worker process: whoever finds none, or has to be kept apart, is taken as soon as that can be."""

from __future__ import annotations

from handlers.desk import Desk


def test_a_run_that_was_turned_away_is_wanted_when_a_place_is_free() -> None:
    desk, wanted = Desk(1), list[bool]()
    desk.on_turned_away = lambda: wanted.append(True)
    assert desk.take("one")

    assert not desk.take("two")
    assert wanted == []
    desk.give_back()

    assert wanted == [True]
    assert desk.turned_away() == {"two"}


def test_two_runs_whose_next_crash_would_be_their_last_never_share_a_process() -> None:
    desk = Desk(10)

    assert desk.quarantine("poison")
    assert not desk.quarantine("innocent")
    desk.end_quarantine("poison")

    assert desk.quarantine("innocent")


def test_the_next_one_is_wanted_as_soon_as_the_first_is_through() -> None:
    desk, wanted = Desk(10), list[bool]()
    desk.on_turned_away = lambda: wanted.append(True)
    desk.quarantine("first")
    desk.quarantine("second")
    desk.quarantine("third")

    desk.end_quarantine("first")

    assert wanted == [True]
    assert desk.turned_away() == {"second", "third"}


def test_a_run_that_never_was_in_quarantine_ends_none() -> None:
    desk, wanted = Desk(10), list[bool]()
    desk.on_turned_away = lambda: wanted.append(True)
    desk.quarantine("suspect")
    desk.quarantine("another")

    desk.end_quarantine("healthy")

    assert wanted == []
    assert not desk.quarantine("another")


def test_nothing_is_wanted_where_nobody_waits() -> None:
    desk, wanted = Desk(10), list[bool]()
    desk.on_turned_away = lambda: wanted.append(True)
    desk.quarantine("suspect")

    desk.end_quarantine("suspect")

    assert wanted == []
