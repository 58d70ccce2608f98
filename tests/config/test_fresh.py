"""Values that are used again for a number of seconds."""

from __future__ import annotations

import threading

import pytest

from config import fresh
from config.fresh import FreshByKey, FreshFor


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock's time, in its one item."""
    now = [100.0]
    monkeypatch.setattr("config.fresh.time.monotonic", lambda: now[0])
    return now


def test_a_value_is_looked_up_again_once_it_is_old(clock: list[float]) -> None:
    value, numbers = FreshFor[int](), iter(range(10))

    first = [value.get(0.5, lambda: next(numbers)) for _ in range(3)]
    clock[0] += 0.5

    assert (first, value.get(0.5, lambda: next(numbers))) == ([0, 0, 0], 1)


def test_a_look_up_that_fails_keeps_nothing() -> None:
    value = FreshFor[int]()

    with pytest.raises(ZeroDivisionError):
        value.get(60, lambda: 1 // 0)

    assert value.get(60, lambda: 7) == 7


def test_others_get_the_last_value_while_one_thread_looks_it_up() -> None:
    value, begun, may_end = FreshFor[str](), threading.Event(), threading.Event()
    value.get(0, lambda: "old")

    def look_up() -> str:
        begun.set()
        assert may_end.wait(10)
        return "new"

    thread = threading.Thread(target=value.get, args=(0, look_up))
    thread.start()
    assert begun.wait(10)
    meanwhile = value.get(0, lambda: "another")
    may_end.set()
    thread.join(10)

    assert (meanwhile, value.get(60, lambda: "late")) == ("old", "new")


def test_each_key_has_a_value_whose_age_begins_with_the_look_up(clock: list[float]) -> None:
    values = FreshByKey[str, list[str]]()

    def slow() -> list[str]:
        clock[0] += 0.4
        return ["a"]

    first = values.get("a", 0.5, slow)
    others = values.get("b", 0.5, lambda: ["b"])
    is_fresh = values.has("a", first, 0.5), values.has("a", ["a"], 0.5), values.has("b", others, 0.5)
    clock[0] += 0.1

    assert is_fresh == (True, False, True)
    assert not values.has("a", first, 0.5)
    assert values.get("a", 0.5, lambda: ["later"]) == ["later"]
    assert values.get("b", 0.5, lambda: ["later"]) is others


def test_a_forgotten_key_is_looked_up_and_too_many_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh, "MAX_KEPT", 2)
    values = FreshByKey[int, str]()
    for key in range(3):
        values.get(key, 60, lambda: "first")
    values.forget(2)

    assert [values.get(key, 60, lambda: "second") for key in (2, 0)] == ["second", "second"]
