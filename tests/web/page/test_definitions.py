"""What the views of definitions compute: differences of versions, which of them serves, forms of keys, lag in words."""

from __future__ import annotations

from difflib import SequenceMatcher
from random import Random
from typing import Any

import pytest

from tests.web.page.conftest import Module

pytestmark = pytest.mark.parity

DIFF = """
  const { diffLines } = await import(`${page}/state/diff.js`);
  return argument.map(([before, after]) => diffLines(before, after).map(({ kind, text }) => [kind, text]));
"""
FIELDS = """
  const { diffFields, folded } = await import(`${page}/state/diff.js`);
  return diffFields(argument.before, argument.after).map(({ field, lines }) => [field, folded(lines, 1)]);
"""
VERSIONS = """
  const { servingOf, pairOf, namesOf } = await import(`${page}/state/versions.js`);
  const of = ([versions, named]) => [servingOf(versions, named), pairOf(versions, named), versions.map(namesOf)];
  return argument.map(of);
"""
KEYS = """
  const { bodyOf, isEnded } = await import(`${page}/state/keys.js`);
  const ended = argument.keys.map((key) => isEnded(key, Date.parse("2026-11-30")));
  return { bodies: argument.values.map(bodyOf), ended };
"""
LAG = """
  const { lagWords, remediesOf } = await import(`${page}/state/observers.js`);
  return argument.map((observer) => [lagWords(observer), remediesOf(observer).map(([, command]) => command)]);
"""
FIT: dict[str, Any] = {"behind_s": 0, "behind": 0, "dead": 0, "retrying": 0, "dropped": 0, "name": "shop"}


def sides(lines: list[list[str]]) -> tuple[str, str]:
    """Return both texts of a difference."""
    parts = [[text for kind, text in lines if kind != other] for other in ("added", "removed")]
    return "\n".join(parts[0]), "\n".join(parts[1])


def test_lines_of_both_texts_are_kept_and_as_many_as_can_be_are_the_same(module: Module) -> None:
    random = Random(5)
    pairs = [["\n".join(random.choices("abcd", k=random.randint(0, 12))) for _ in range(2)] for _ in range(200)]

    for (before, after), lines in zip(pairs, module(DIFF, pairs), strict=True):
        assert sides(lines) == (before, after)
        blocks = SequenceMatcher(None, before.split("\n"), after.split("\n"), autojunk=False).get_matching_blocks()
        number = sum(block.size for block in blocks) if before and after else 0
        assert sum(kind == "same" for kind, _ in lines) >= number


def test_a_text_that_is_too_long_to_compare_is_replaced_in_its_middle(module: Module) -> None:
    before = "\n".join(["same", *(f"a{number}" for number in range(3000)), "end"])
    after = "\n".join(["same", *(f"b{number}" for number in range(3000)), "end"])

    (lines,) = module(DIFF, [[before, after]])

    assert sides(lines) == (before, after)
    assert [lines[0], lines[-1]] == [["same", "same"], ["same", "end"]]


def test_fields_differ_by_their_lines_and_equal_lines_far_from_a_change_are_folded(module: Module) -> None:
    text = "\n".join(f"line {number}" for number in range(9))
    before = {"system_prompt": text, "model": "auto", "tools": ["clock"], "name": "A"}
    after = {"system_prompt": text.replace("line 4", "line four"), "model": "auto", "tools": ["clock", "files"]}

    fields = dict(module(FIELDS, {"before": before, "after": after}))

    assert list(fields) == ["name", "system_prompt", "tools"]
    assert fields["name"] == [{"kind": "removed", "text": "A"}]
    gaps = [part["count"] for part in fields["system_prompt"] if part["kind"] == "gap"]
    assert gaps == [3, 3]
    assert {"kind": "added", "text": '  "files"'} in fields["tools"]


def version(number: int, *, in_file: bool = False, **aliases: int) -> dict[str, Any]:
    return {"version": number, "aliases": aliases, "is_in_file": in_file, "created_at": "", "promoted": {}}


def test_what_serves_is_compared_with_the_canary_or_the_files_or_the_one_before(module: Module) -> None:
    canary = [version(3, in_file=True), version(2, canary=10), version(1, stable=100)]
    ahead = [version(2, in_file=True), version(1, stable=100)]
    plain = [version(2, in_file=True), version(1)]

    answers = module(VERSIONS, [[canary, 1], [ahead, 1], [plain, None], [[version(1, in_file=True)], None], [[], None]])

    assert [answer[:2] for answer in answers] == [[1, [1, 2]], [1, [1, 2]], [2, [2, 1]], [1, [1, 0]], [0, [0, 0]]]
    assert answers[0][2] == [["in its file"], ["canary, 10 % of the threads"], ["stable"]]


def test_a_key_gets_what_the_form_says_and_ends_as_it_says(module: Module) -> None:
    values = [
        {"name": " ci ", "roles": ["viewer"], "ends": "30 days", "agents": "support, , clerk"},
        {"name": "ci", "ends": "it does not end"},
    ]
    keys = [{}, {"revoked_at": "2026-11-01"}, {"expires_at": "2026-11-29"}, {"expires_at": "2026-12-01"}]

    answer = module(KEYS, {"values": values, "keys": keys})

    assert answer["bodies"] == [
        {"name": "ci", "roles": ["viewer"], "agents": ["support", "clerk"], "expires_in_s": 30 * 86_400},
        {"name": "ci", "roles": []},
    ]
    assert answer["ended"] == [False, True, True, False]


def test_an_observer_says_how_far_behind_it_is_and_what_to_do(module: Module) -> None:
    late = {**FIT, "state": "stopped", "behind_s": 65, "behind": 12, "dead": 2, "retrying": 1}

    assert module(LAG, [{**FIT, "state": "running"}, late]) == [
        ["up to date", []],
        [
            "1 min 05 s behind (12 events at most) · 2 dead letters · 1 delivery tried again",
            ["./callboard observe shop", "./callboard observers feed shop --all"],
        ],
    ]
