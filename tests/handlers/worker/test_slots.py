"""The slots of a worker process: a run that finds none, or that has to be kept apart, begins as soon as it can."""

from __future__ import annotations

import threading

from handlers.worker.slots import SlotPool


def test_a_run_that_was_deferred_is_wanted_when_a_place_is_free() -> None:
    slots, signals = SlotPool(1), list[bool]()
    slots.on_deferred = lambda: signals.append(True)
    assert slots.take("one")

    assert not slots.take("two")
    assert signals == []
    slots.give_back()

    assert signals == [True]
    assert slots.deferred() == {"two"}


def test_two_runs_whose_next_crash_would_be_their_last_never_share_a_process() -> None:
    slots = SlotPool(10)

    assert slots.admit("poison", is_suspect=True)
    assert not slots.admit("innocent", is_suspect=True)
    assert slots.admit("healthy")
    slots.leave("poison")

    assert slots.admit("innocent", is_suspect=True)


def test_the_next_one_is_wanted_as_soon_as_the_first_is_through() -> None:
    slots, signals = SlotPool(10), list[bool]()
    slots.on_deferred = lambda: signals.append(True)
    for suspect in ("first", "second", "third"):
        slots.admit(suspect, is_suspect=True)

    slots.clear("first")

    assert signals == [True]
    assert slots.deferred() == {"second", "third"}


def test_a_run_that_never_was_in_quarantine_ends_none() -> None:
    slots, signals = SlotPool(10), list[bool]()
    slots.on_deferred = lambda: signals.append(True)
    slots.admit("suspect", is_suspect=True)
    slots.admit("healthy")
    slots.admit("another", is_suspect=True)

    slots.leave("healthy")

    assert signals == []
    assert not slots.admit("another", is_suspect=True)


def test_nothing_is_wanted_where_no_run_waits() -> None:
    slots, signals = SlotPool(10), list[bool]()
    slots.on_deferred = lambda: signals.append(True)
    slots.admit("suspect", is_suspect=True)

    slots.leave("suspect")

    assert signals == []


def test_a_run_that_has_to_be_alone_waits_for_the_others_and_no_more_are_admitted() -> None:
    slots, signals = SlotPool(10), list[bool]()
    slots.on_deferred = lambda: signals.append(True)
    slots.admit("first")
    slots.admit("second")

    assert not slots.admit("alone", is_suspect=True, must_be_alone=True)
    assert slots.reserved_for == "alone"
    assert not slots.admit("third")
    slots.leave("first")
    assert not slots.admit("alone", is_suspect=True, must_be_alone=True)
    slots.leave("second")

    assert (signals, slots.deferred()) == ([True], {"alone", "third"})
    assert not slots.admit("third")
    assert slots.admit("alone", is_suspect=True, must_be_alone=True)
    assert slots.reserved_for is None
    assert not slots.admit("third")
    slots.clear("alone")
    assert slots.admit("third")
    assert not slots.admit("another", is_suspect=True), "it is a suspect to its end"


def test_a_process_is_not_kept_for_a_run_that_another_process_has_taken() -> None:
    slots = SlotPool(10)
    slots.admit("first")
    slots.admit("alone", is_suspect=True, must_be_alone=True)

    slots.leave("alone")

    assert slots.reserved_for is None
    assert slots.admit("second")


def test_a_pool_that_closes_refuses_the_runs_that_wait_for_a_slot_and_those_that_come() -> None:
    slots, refused = SlotPool(1), list[str]()
    slots.on_refused = refused.append
    assert slots.take("run_1")
    assert not slots.take("run_2")

    slots.close()
    assert refused == ["run_2"]
    slots.take("run_3")
    slots.defer({"run_4"})

    assert refused == ["run_2", "run_3", "run_4"]
    assert slots.deferred() == set()


def test_a_second_message_for_a_run_that_is_worked_on_changes_nothing() -> None:
    slots = SlotPool(10)
    slots.admit("first")

    assert slots.admit("first")
    slots.leave("first")

    assert not slots.admit("alone", is_suspect=True, must_be_alone=True), "the first is still here"


def test_a_run_that_turns_out_to_be_a_suspect_stays_only_where_it_may() -> None:
    slots = SlotPool(10)
    slots.admit("suspect", is_suspect=True)
    slots.admit("another")

    assert not slots.admit("another", is_suspect=True, again=True)
    slots.leave("suspect")

    assert slots.admit("alone", is_suspect=True, must_be_alone=True), "none is left"


def test_of_two_that_have_to_be_alone_and_were_admitted_before_their_rows_were_read_the_first_is_wanted_at_once() -> (
    None
):
    slots, signals = SlotPool(10), list[bool]()
    slots.on_deferred = lambda: signals.append(True)
    assert slots.admit("first")
    assert slots.admit("second")

    assert not slots.admit("first", is_suspect=True, must_be_alone=True, again=True)
    assert not slots.admit("second", is_suspect=True, must_be_alone=True, again=True)

    assert signals == [True]
    assert "first" in slots.deferred()
    assert slots.admit("first")
    assert slots.admit("first", is_suspect=True, must_be_alone=True, again=True)
    assert not slots.admit("second")


def test_a_process_that_ends_waits_for_a_run_that_is_being_claimed() -> None:
    slots, ended = SlotPool(2), threading.Event()
    assert slots.take("claimed soon")  # and not admitted yet

    def wait() -> None:
        slots.wait()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()

    slots.close()
    assert not ended.wait(0.05)
    slots.give_back()

    assert ended.wait(5)
    assert not slots.take("late")
