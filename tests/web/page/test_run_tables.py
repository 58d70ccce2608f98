"""What a run's calls used, the speed of its text, where a run is, and two runs beside each other."""

from __future__ import annotations

from typing import Any

import pytest

from tests.web.page.conftest import Module

pytestmark = pytest.mark.parity

USES = """
  const { usesOf, totalsOf } = await import(`${page}/state/usage.js`);
  const uses = usesOf(argument);
  const of = (name) => uses.map((use) => use[name] ?? null);
  return { speeds: of("speed"), firsts: of("firstMs"), sums: totalsOf(uses) };
"""
PAIRS = """
  const { pairedSteps } = await import(`${page}/state/compare.js`);
  const pairs = pairedSteps(argument.left, argument.right);
  return pairs.map(({ left, right, isSame }) => [left?.name ?? "", right?.name ?? "", isSame]);
"""
DOING = """
  const { doingOf } = await import(`${page}/views/board/doing.js`);
  const now = Date.parse("2026-01-02T00:02:00Z");
  return argument.map((run) => doingOf({ status: "running", ...run }, [], now)).map(({ words, left }) => [words, left]);
"""
UNDOING = ("undoes items/3/charge", "undoes what it did")
RATES = """
  const { rateBars } = await import(`${page}/state/timeline.js`);
  return rateBars(new Map(argument), [{ from: 0, to: 10_000, share: 1, isFolded: false }], 10);
"""


def model(number: int, **facts: Any) -> dict[str, Any]:
    return {"kind": "model", "number": number, "name": "m", "from": 1000, "to": 4000} | facts


def steps(names: str) -> list[dict[str, Any]]:
    return [{"kind": "tool", "name": name, "status": "done", "result": 1} for name in names]


def test_speed_is_counted_from_the_first_token_and_sums_need_every_cost(module: Module) -> None:
    parts = {"thinkFrom": 2000, "writeFrom": 3000, "writeTo": 4000}
    priced = model(1, usage={"input_tokens": 5, "output_tokens": 40}, parts=parts, cost_usd=0.5)
    silent = model(2, usage={"input_tokens": 7, "output_tokens": 3}, to=None)

    both, first = module(USES, [priced, silent, {"kind": "tool", "name": "add"}]), module(USES, [priced])

    assert (both["speeds"], both["firsts"]) == ([20, None], [1000, None])
    assert both["sums"] == {"read": 12, "written": 43, "cached": 0, "ms": 3000}, "the cost of one is not priced"
    assert first["sums"]["cost"] == 0.5


def test_a_running_row_says_where_the_run_is_and_for_how_long(module: Module) -> None:
    began = {"started_at": "2026-01-02T00:01:18Z"}
    at = [
        {"kind": "tool", "name": "run_tests"},
        {"kind": "model", "name": "m"},
        {"kind": "model", "name": "m", "node": "items/3"},
        {"kind": "node", "name": "CAPABILITY", "node": "items/3/charge~compensate"},
        {"kind": "node", "name": "SAGA", "node": "~saga"},
    ]

    running = [{"current_step": step | began} for step in at]
    rows = module(DOING, [*running, {"current_step": at[0]}, {"steps": 1}, {}])

    assert rows[:-3] == [[words, "42 s"] for words in ("run_tests", "model m", "items/3", *UNDOING)]
    assert rows[-3:] == [["run_tests", ""], ["1 call so far", ""], ["its first call", ""]]


@pytest.mark.parametrize(
    ("left", "right", "pairs"),
    [
        ("", "", []),
        ("a", "", [["a", "", False]]),
        ("abc", "abc", [["a", "a", True], ["b", "b", True], ["c", "c", True]]),
        ("abc", "ac", [["a", "a", True], ["b", "", False], ["c", "c", True]]),
        ("ac", "axc", [["a", "a", True], ["", "x", False], ["c", "c", True]]),
    ],
)
def test_steps_are_paired_by_the_longest_common_sequence(
    module: Module, left: str, right: str, pairs: list[list[Any]]
) -> None:
    assert module(PAIRS, {"left": steps(left), "right": steps(right)}) == pairs


def test_steps_with_another_result_differ_and_very_many_are_not_paired(module: Module) -> None:
    other = [{**steps("a")[0], "result": 2}]

    assert module(PAIRS, {"left": steps("a"), "right": other}) == [["a", "a", False]]
    assert len(module(PAIRS, {"left": steps("a" * 2000), "right": steps("b" * 3000)})) == 5000


def test_the_speed_of_text_stands_where_it_was_written(module: Module) -> None:
    assert module(RATES, []) == {"most": 0, "bars": []}
    slots = [[4, 1000, 1200, 5], [5, 1250, 1500, 10], [28, 7000, 7200, 8], [29, 7250, 7300, 2]]

    answer = module(RATES, [[slot, {"from": at, "to": to, "pieces": pieces}] for slot, at, to, pieces in slots])

    assert answer["most"] == 15
    assert [[round(bar[name], 3) for name in ("at", "width", "height")] for bar in answer["bars"]] == [
        [0.1, 0.05, 1],
        [0.7, 0.03, 0.8],
    ]
