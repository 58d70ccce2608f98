"""What tools return anew each time is not compared; everything else is."""

from __future__ import annotations

from typing import Any

import pytest

from bus.journal.readers import RunRecord
from cli.crashlab.invariants import differences
from cli.crashlab.lab import Varying, without

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
