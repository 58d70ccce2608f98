"""Places are named by what was just committed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bus.journal.readers import RunRecord
from cli.crashlab.invariants import differences
from cli.crashlab.lab import Varying, without
from cli.crashlab.places import Passed, places_of

MODEL, PAY = "the model call", "`pay`"


def passed(location: str, status: str = "running", **steps: tuple[str, str]) -> Passed:
    return Passed(place=location, runs={"run_1": status} if status else {}, steps=steps)


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


def where(*passed_places: Passed) -> list[str]:
    return [location.where for location in places_of(passed_places)]


OPEN = Passed(place="commit", runs={"run_1": "running"}, steps={})


def test_a_message_that_interrupts_names_both_runs() -> None:
    both: dict[str, Any] = {"runs": {"run_1": "running", "run_2": "queued"}, "controls": {"1": ("stop", "")}}
    accepted = replace(OPEN, place="accept", **both)
    ended = replace(
        OPEN, **both | {"runs": {"run_1": "cancelled", "run_2": "queued"}, "controls": {"1": ("stop", "consumed")}}
    )

    assert where(OPEN, accepted, ended)[1:] == [
        "after the commit that accepted the run and requested a stop",
        "after the commit that left the run cancelled",
    ]


def test_a_control_is_named_until_it_is_consumed() -> None:
    request = Passed(place="unowned", runs=OPEN.runs, steps={}, controls={"1": ("steer", "")})
    message = replace(request, place="accept")
    answers = [replace(request, place="commit", controls={"1": ("steer", state)}) for state in ("accepted", "consumed")]

    assert where(OPEN, request, *answers)[1:] == [
        "after the commit that requested a steer",
        "after the commit that accepted a steer",
        "after the commit that consumed a steer",
    ]
    assert where(OPEN, message)[1] == "after the commit that accepted a message and requested a steer"
    assert where(OPEN, replace(OPEN, place="summary"))[1] == "after the commit that kept a summary"


def test_each_process_counts_its_own_places() -> None:
    second = [replace(OPEN, place="accept", runs={"run_1": "succeeded", "run_2": "queued"})]

    places = places_of(RUN[:2], second)

    assert [(str(location), location.process) for location in places[1:]] == [("accept@1", 0), ("accept@1", 1)]
    assert places[2].where == "after the commit that accepted the run and left the run succeeded"


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
