"""What was counted as series, what a sparkline keeps of many numbers, and how keys move a range of time."""

from __future__ import annotations

from typing import Any

import pytest

from tests.web.page.conftest import Module

pytestmark = pytest.mark.parity

IMPORT = "const { seriesOf, sumOf, thinned } = await import(`${page}/state/metrics.js`);"
BRUSH = "const { movedRange, slotsBetween } = await import(`${page}/state/brush.js`);"
TIMES = [0, 300, 600, 900]


def row(at: str, **fields: Any) -> dict[str, Any]:
    return {"at": at, "started": 0, "runs": {}, "input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0} | fields


def test_each_slot_has_its_place_also_where_nothing_was_counted(module: Module) -> None:
    rows = [
        row("2026-11-30T11:40:00Z", started=3, runs={"succeeded": 2, "failed": 1, "dead": 1}, first_token_p95_s=0.8),
        row("2026-11-30T11:50:00.000Z", runs={"cancelled": 4}, output_tokens=600, cost_usd=0.25),
        row("2026-11-30T09:00:00Z", started=99),
    ]

    series = module(f"{IMPORT} return seriesOf(argument, 300, 900_000, Date.parse('2026-11-30T11:52:00Z'));", rows)

    assert series["times"] == [1_796_038_800 + minutes * 60 for minutes in (0, 5, 10)]
    assert (series["started"], series["well"], series["failed"]) == ([3, 0, 0], [2, 0, 0], [2, 0, 0])
    assert (series["stopped"], series["cost"]) == ([0, 0, 4], [0, 0, 0.25])
    assert series["p95"] == [0.8, None, None]
    assert series["rate"] == [0, 0, 5]  # of the two minutes that have passed


def test_a_sum_is_of_all_or_of_a_range(module: Module) -> None:
    script = f"{IMPORT} const s = {{ times: argument }}; const v = [1, 2, 4, 8];"

    sums = module(f"{script} return [sumOf(s, v), sumOf(s, v, {{ from: 300, to: 900 }}), sumOf(s, [])];", TIMES)

    assert sums == [15, 6, 0]


@pytest.mark.parametrize(
    ("values", "most", "kept"),
    [
        ([], 3, []),
        ([1], 3, [1]),
        ([1, 5, 2, 2, None, 9], 3, [5, 2, 9]),
        ([None, None, 3, 1], 2, [None, 3]),
    ],
    ids=str,
)
def test_of_many_numbers_the_highest_of_each_stretch_is_kept(
    module: Module, values: list[int | None], most: int, kept: list[int | None]
) -> None:
    assert module(f"{IMPORT} return thinned(argument, {most});", values) == kept


def test_what_is_usual_leaves_a_tenth_out_at_each_end(module: Module) -> None:
    script = f"{IMPORT.replace('thinned', 'thinned, usual')} return argument.map(usual);"

    assert module(script, [[None, *range(11)], [7], [None], []]) == [[1, 9], [7, 7], None, None]


def test_a_million_numbers_are_thinned(module: Module) -> None:
    script = "const kept = thinned(Array.from({ length: 1e6 }, (_, i) => i), 32); return [kept.length, kept.at(-1)];"

    assert module(f"{IMPORT} {script}", None) == [32, 999_999]


@pytest.mark.parametrize(
    ("stretch", "chosen"),
    [
        ((10, 20), [0, 300]),
        ((290, 610), [0, 900]),
        ((-50, 5000), [0, 1200]),
        ((600, 600), None),
        ((700, 650), None),
        ((5000, 6000), None),
    ],
    ids=str,
)
def test_a_stretch_becomes_whole_slots(module: Module, stretch: tuple[int, int], chosen: list[int] | None) -> None:
    script = "const range = slotsBetween(...argument, 300); return range && [range.from, range.to];"

    assert module(f"{BRUSH} {script}", [*stretch, TIMES]) == chosen


def test_no_slot_is_chosen_where_there_is_none(module: Module) -> None:
    script = "return [slotsBetween(0, 9, [], 300), movedRange(null, 'End', false, [], 300) ?? null];"

    assert module(f"{BRUSH} {script}", None) == [None, None]


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        (["ArrowLeft"], [900, 1200]),
        (["Home", "ArrowLeft"], [0, 300]),
        (["End", "ArrowLeft", "ArrowLeft"], [300, 600]),
        (["End", "ArrowRight"], [900, 1200]),
        (["Home", "+ArrowRight", "+ArrowRight"], [0, 900]),
        (["Home", "+ArrowRight", "ArrowRight"], [300, 900]),
        (["Home", "+ArrowLeft"], [0, 300]),
        (["End", "Escape"], None),
        (["End", "x"], [900, 1200]),
    ],
    ids=str,
)
def test_keys_move_a_range(module: Module, keys: list[str], chosen: list[int] | None) -> None:
    script = """
    let range = null;
    for (const key of argument.keys) {
      const next = movedRange(range, key.replace("+", ""), key.startsWith("+"), argument.times, 300);
      if (next !== undefined) range = next;
    }
    return range && [range.from, range.to];
    """

    assert module(f"{BRUSH} {script}", {"keys": keys, "times": TIMES}) == chosen
