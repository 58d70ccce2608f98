"""Places are named by what was just committed."""

from __future__ import annotations

from typing import Any

import pytest

from bus.journal.readers import RunRecord
from cli.crashlab.invariants import differences
from cli.crashlab.lab import Varying, without
from cli.crashlab.places import Passed, places_of

MODEL, PAY = "the model call", "`pay`"


def passed(location: str, status: str = "running", **steps: tuple[str, str]) -> Passed:
    return Passed(place=location, status=status, steps=steps)


RUN = [
    passed("accept-before", ""),
    passed("accept", "queued"),
    passed("claim-before", "queued"),
    passed("claim", m=(MODEL, "started")),
    passed("commit-before", m=(MODEL, "started")),
    passed("commit", m=(MODEL, "done"), p=(PAY, "started")),
    passed("tool", m=(MODEL, "done"), p=(PAY, "started")),
    passed("tool-after", m=(MODEL, "done"), p=(PAY, "started")),
    passed("commit-before", m=(MODEL, "done"), p=(PAY, "started")),
    passed("commit", "succeeded", m=(MODEL, "done"), p=(PAY, "done")),
]


def test_every_passing_is_a_place_with_words():
    assert places_of(RUN)[4].points == "commit-before=kill@1"
    assert [(str(location), location.where) for location in places_of(RUN)] == [
        ("accept-before@1", "just before the commit that accepted the run"),
        ("accept@1", "after the commit that accepted the run"),
        ("claim-before@1", "just before the commit that claimed the run and started the model call"),
        ("claim@1", "after the commit that claimed the run and started the model call"),
        ("commit-before@1", "just before the commit that ended the model call and started `pay`"),
        ("commit@1", "after the commit that ended the model call and started `pay`"),
        ("tool@1", "before `pay` was called"),
        ("tool-after@1", "after `pay` was called"),
        ("commit-before@2", "just before the commit that ended `pay` and left the run succeeded"),
        ("commit@2", "after the commit that ended `pay` and left the run succeeded"),
    ]


def test_calls_made_at_once_cannot_be_distinguished():
    (location,) = places_of([passed("tool", a=(PAY, "started"), b=("`send`", "started"))])

    assert location.where == "before one of `pay`, `send` was called"


CALL = 'order {"boxes":3}'


def record(result: dict[str, Any], text: str) -> RunRecord:
    return RunRecord(
        run={"reason": None, "output": text},
        steps=[],
        lines=[],
        messages=[
            {"role": "tool", "result": result, "outcome": "done"},
            {"role": "assistant", "content": text},
        ],
        rows=[],
        approvals=[],
        open_run=None,
    )


FIRST = {"boxes": 3, "at": "12:00:01", "number": 71, "by": ["ann"]}


@pytest.mark.parametrize(
    ("result", "text", "is_same"),
    [
        ({**FIRST, "at": "12:00:09", "number": 5}, "3 boxes at 12:00:09.", True),
        ({**FIRST, "at": "12:00:09"}, "4 boxes at 12:00:09.", False),
        ({**FIRST, "at": "12:00:09", "boxes": 6}, "3 boxes at 12:00:09.", False),
        ({**FIRST, "at": "12:00:09", "by": ["ann", "bob"]}, "3 boxes at 12:00:09.", False),
        ({**FIRST, "at": "12:00:09"}, "3 boxes at 12:00:08.", False),
    ],
)
def test_only_what_differs_by_itself_is_left_out(result: dict[str, Any], text: str, is_same: bool) -> None:
    first, killed = record(FIRST, "3 boxes at 12:00:01."), record(result, text)
    varying = Varying({CALL: FIRST}, {CALL: {**FIRST, "at": "12:00:04", "number": 12}})

    values = varying.values([(CALL, result)])

    assert differences(killed, first)
    assert (differences(without(killed, values), without(first, values)) == []) is is_same


def test_where_two_runs_are_equal_everything_is_compared() -> None:
    assert Varying({CALL: FIRST}, {CALL: FIRST}).values([(CALL, {**FIRST, "at": "12:00:09"})]) == []
