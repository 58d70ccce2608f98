"""Every function that reads text of a model, tool, peer or file takes hostile text in linear time, or refuses it.

These tests tell linear growth from quadratic and worse, and hold nothing against a bar:
``./callboard bench --only hostile_text`` does that.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest

from tests.hostile_functions import IN_PIECES, ON_A_THREAD, ON_THE_LOOP
from tests.hostile_text import SHAPES, cpu_s

SHORT, LONG = 16 * 1024, 128 * 1024
GROWTH = 3 * LONG / SHORT
"""Times that eight times the text may take: linear functions need 8, quadratic ones 64."""
NOTICED_S = 0.3
"""A shorter time is mostly the same for each length, and no quadratic function needs as little."""
FUNCTIONS = {**ON_THE_LOOP, **ON_A_THREAD, **IN_PIECES}


@pytest.fixture(autouse=True)
def _no_collections() -> Iterator[None]:
    """A collection looks at everything this process holds, which grows faster than the text."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parity  # the clock decides
@pytest.mark.parametrize("name", FUNCTIONS)
def test_hostile_text_takes_linear_time(name: str) -> None:
    slow = [shape for shape, text in SHAPES.items() if _is_slow(FUNCTIONS[name], text)]

    assert slow == []


@pytest.mark.parametrize(("power", "is_slow"), [(1, False), (2, True), (3, True)])
def test_slower_growth_is_found(power: int, is_slow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    monkeypatch.setattr("tests.hostile_text.time.thread_time", lambda: now_s[0])

    def function(text: str) -> None:
        now_s[0] += 2 * NOTICED_S * (len(text) / LONG) ** power

    assert _is_slow(function, SHAPES["letters"]) is is_slow


def _is_slow(function: Callable[[str], object], text: Callable[[int], str]) -> bool:
    """Return whether the function's time grows faster than the text; a cubic one is found before it takes minutes."""
    if cpu_s(function, text(SHORT // 16)) > 1 or cpu_s(function, text(SHORT)) > 1:
        return True
    long_s = cpu_s(function, text(LONG))
    if long_s < NOTICED_S:
        return False
    most_s = GROWTH * _least_s(function, text(SHORT))
    return long_s > most_s and _least_s(function, text(LONG)) > most_s


def _least_s(function: Callable[[str], object], text: str) -> float:
    return min(cpu_s(function, text) for _ in range(3))
