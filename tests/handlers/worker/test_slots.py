"""The slots of a worker process: a run that finds none, or that has to be kept apart, begins as soon as it can."""

from __future__ import annotations

from handlers.worker.slots import SlotPool


def test_a_run_that_was_deferred_is_wanted_when_a_place_is_free() -> None:
    slots, wanted = SlotPool(1), list[bool]()
    slots.on_deferred = lambda: wanted.append(True)
    assert slots.take("one")

    assert not slots.take("two")
    assert wanted == []
    slots.give_back()

    assert wanted == [True]
    assert slots.deferred() == {"two"}


def test_two_runs_whose_next_crash_would_be_their_last_never_share_a_process() -> None:
    slots = SlotPool(10)

    assert slots.quarantine("poison")
    assert not slots.quarantine("innocent")
    slots.end_quarantine("poison")

    assert slots.quarantine("innocent")


def test_the_next_one_is_wanted_as_soon_as_the_first_is_through() -> None:
    slots, wanted = SlotPool(10), list[bool]()
    slots.on_deferred = lambda: wanted.append(True)
    slots.quarantine("first")
    slots.quarantine("second")
    slots.quarantine("third")

    slots.end_quarantine("first")

    assert wanted == [True]
    assert slots.deferred() == {"second", "third"}


def test_a_run_that_never_was_in_quarantine_ends_none() -> None:
    slots, wanted = SlotPool(10), list[bool]()
    slots.on_deferred = lambda: wanted.append(True)
    slots.quarantine("suspect")
    slots.quarantine("another")

    slots.end_quarantine("healthy")

    assert wanted == []
    assert not slots.quarantine("another")


def test_nothing_is_wanted_where_no_run_waits() -> None:
    slots, wanted = SlotPool(10), list[bool]()
    slots.on_deferred = lambda: wanted.append(True)
    slots.quarantine("suspect")

    slots.end_quarantine("suspect")

    assert wanted == []
