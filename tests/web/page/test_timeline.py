"""The timeline of a run: its events and steps as rows, and the scale they are drawn on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.web.page.conftest import Module

pytestmark = pytest.mark.parity

ROWS = """
  const { chosenRow, placeOf, RunFacts, stretches, ticksOf, timeBy, timelineRows } =
    await import(`${page}/state/timeline.js`);
  const facts = new RunFacts();
  const at = (s) => new Date(1e12 + s * 1000).toISOString();
  for (const [s, event] of argument.events) facts.add({ at: at(s), ...event });
  const time = ([from, to]) => ({ started_at: at(from), ...(to === null ? {} : { ended_at: at(to) }) });
  const rows = timelineRows(facts, argument.steps.map(({ span, ...step }) => ({ ...step, ...time(span) })));
  const to = facts.to ?? facts.last, seconds = (ms) => (ms === null ? null : (ms - 1e12) / 1000);
  const scale = stretches(rows, facts.from, to, argument.isTrue);
  return {
    rows: rows.map((row) => [row.kind, row.name, seconds(row.from), seconds(row.to), row.state]),
    scale: scale.map(({ from, to, isFolded }) => [seconds(from), seconds(to), isFolded]),
    sum: scale.reduce((sum, { share }) => sum + share, 0),
    places: [0, 5, 40, 100].map((s) => placeOf(scale, 1e12 + s * 1000)),
    by: Object.values(timeBy(rows, to)).map((ms) => ms / 1000),
    retries: rows.map((row) => row.retries?.length ?? 0),
    work: rows.filter(({ kind }) => kind === "attempt").map(({ workMs }) => workMs / 1000),
    chosen: chosenRow(rows, "")?.key,
    ticks: ticksOf(scale, 6).map(({ words }) => words),
  };
"""
LOST: dict[str, Any] = {
    "events": [
        [0, {"type": "status", "status": "queued"}],
        [1, {"type": "status", "status": "running", "attempt": 1}],
        [2, {"type": "reasoning", "step_id": "m1"}],
        [3, {"type": "error", "code": "rate_limited", "retry_in_ms": 500}],
        [4, {"type": "response", "step_id": "m1"}],
        [5, {"type": "tool", "call_id": "c1", "name": "pay", "arguments": {"order": 1042}}],
        [9, {"type": "tool_progress", "call_id": "c1", "name": "pay", "done": 1}],
        [29, {"type": "withdrawn", "ranges": [[7, 1001]]}],
        [29, {"type": "status", "status": "running", "attempt": 2}],
        [29, {"type": "approval", "approval_id": "a1", "call_id": "c1", "name": "pay", "decisions": ["run_again"]}],
        [29, {"type": "status", "status": "waiting", "reason": "approval"}],
        [89, {"type": "approval", "approval_id": "a1", "decision": "take_as_done", "by": "mara"}],
        [89, {"type": "status", "status": "queued", "reason": "answered"}],
        [90, {"type": "status", "status": "running", "attempt": 3}],
        [99, {"type": "end", "status": "succeeded"}],
    ],
    "steps": [
        {"id": "m1", "kind": "model", "name": "m", "status": "done", "span": [1, 5]},
        {"id": "t1", "kind": "tool", "name": "pay", "status": "done", "call_id": "c1", "span": [5, 90]},
        {"id": "m2", "kind": "model", "name": "m", "status": "done", "span": [90, 99]},
    ],
    "isTrue": False,
}


def lost(status: str, question: bool = True, **answer: Any) -> dict[str, Any]:
    """Return the lost worker's run with another question, or with none, and the state of the step."""
    events = [
        [at, event | answer if "decision" in event else event]
        for at, event in LOST["events"]
        if question or not (29 <= at <= 90 and event.get("attempt") != 2)
    ]
    steps = [step | {"status": status} if step["id"] == "t1" else step for step in LOST["steps"]]
    return LOST | {"events": events, "steps": steps}


def test_a_lost_worker_ends_an_attempt_and_an_answer_does_not(module: Module) -> None:
    answer = module(ROWS, LOST)

    assert answer["rows"] == [
        ["attempt", "Attempt 1", 1, 9, "worker_lost"],
        ["model", "m", 1, 5, "done"],
        ["tool", "pay", 5, 9, "cut off"],
        ["attempt", "Attempt 2", 29, 99, "succeeded"],
        ["question", "pay", 29, 89, "take_as_done"],
        ["model", "m", 90, 99, "done"],
    ]
    assert answer["retries"][1] == 1
    assert answer["by"] == [13, 4, 20, 60], "models, tools, no worker, persons"
    assert answer["work"] == [8, 9]


def test_a_call_that_was_cut_off_is_a_row_again_where_it_was_made_again(module: Module) -> None:
    pure, again = module(ROWS, lost("done", question=False)), module(ROWS, lost("done", decision="run_again"))

    assert [row for row in pure["rows"] if row[0] == "tool"] == [
        ["tool", "pay", 5, 9, "cut off"],
        ["tool", "pay", 29, 90, "done"],
    ]
    assert [row[2:] for row in again["rows"] if row[0] == "tool"] == [[5, 9, "cut off"], [89, 90, "done"]]


def test_a_tool_that_was_tried_again_and_time_that_counts_once(module: Module) -> None:
    child = {"type": "child", "child_run_id": "r2", "agent": "atlas"}
    events = [
        [0, {"type": "status", "status": "running", "attempt": 1}],
        [1, {"type": "error", "code": "tool_failed", "call_id": "c1", "retry_in_ms": 500}],
        [1, {"type": "error", "code": "tool_failed", "call_id": "c2", "retry_in_ms": 500}],
        [2, child | {"status": "running"}],
        [2, {"type": "status", "status": "waiting", "reason": "child"}],
        [7, child | {"status": "succeeded"}],
        [7, {"type": "status", "status": "running", "attempt": 3}],
    ]
    calls = [
        {"id": f"t{i}", "kind": "tool", "name": "ask", "call_id": f"c{i}", "status": "failed", "span": [0, 8]}
        for i in (1, 2)
    ]

    answer = module(ROWS, {"events": [*events, [8, {"type": "end", "status": "failed"}]], "steps": calls})

    assert answer["retries"] == [0, 1, 1, 0]
    assert answer["by"] == [0, 8, 0, 0]
    assert answer["rows"][0] == ["attempt", "Attempt 1", 0, 8, "failed"], "a child is no reason for another attempt"
    assert answer["work"] == [3]
    assert answer["chosen"] == "t2"


@pytest.mark.parametrize(
    ("end", "ticks"),
    [
        (0.19, ["0 ms", "50 ms", "100 ms", "150 ms"]),
        (2.5, ["0.0 s", "0.5 s", "1.0 s", "1.5 s", "2.0 s"]),
        (34, ["0 s", "10 s", "20 s", "30 s"]),
        (95, ["0:00", "0:20", "0:40", "1:00", "1:20"]),
        (4000, ["0:00:00", "0:20:00", "0:40:00", "1:00:00"]),
    ],
)
def test_ticks_are_round_and_of_one_unit(module: Module, end: float, ticks: list[str]) -> None:
    events = [[0, {"type": "status", "status": "running"}], [end, {"type": "end", "status": "succeeded"}]]
    step = {"id": "m1", "kind": "model", "name": "m", "status": "done", "span": [0, end]}

    assert module(ROWS, {"events": events, "steps": [step]})["ticks"] == ticks


def test_waits_are_folded_and_the_scale_keeps_the_order(module: Module) -> None:
    answer = module(ROWS, LOST)

    assert answer["scale"] == [[0, 9, False], [9, 29, True], [29, 90, True], [90, 99, False]]
    assert answer["sum"] == pytest.approx(1)
    assert answer["places"] == sorted(answer["places"])
    assert answer["places"][0] == 0
    assert answer["places"][-1] == 1
    whole = module(ROWS, LOST | {"isTrue": True})
    assert whole["scale"] == [[0, 99, False]]
    assert whole["places"][2] == pytest.approx(40 / 99)


def test_a_call_that_is_asked_about_has_not_begun(module: Module) -> None:
    events = [
        [0, {"type": "status", "status": "running", "attempt": 1}],
        [1, {"type": "approval", "approval_id": "a1", "call_id": "c1", "name": "pay", "decisions": ["approve"]}],
    ]
    step = {"id": "t1", "kind": "tool", "name": "pay", "call_id": "c1"}
    later = [*events, [61, {"type": "approval", "approval_id": "a1", "decision": "approve", "by": "mara"}]]

    before = module(ROWS, {"events": events, "steps": [step | {"status": "planned", "span": [1, None]}]})
    after = module(ROWS, {"events": later, "steps": [step | {"status": "done", "span": [1, 62]}]})

    assert [row[0] for row in before["rows"]] == ["attempt", "question"]
    assert after["rows"][2] == ["tool", "pay", 61, 62, "done"]


def test_no_event_and_one_event_are_drawn(module: Module) -> None:
    for events in ([[0, {"type": "status", "status": "queued"}]], [[0, {"type": "unknown"}], [0, {"at": "never"}]], []):
        answer = module(ROWS, {"events": events, "steps": []})

        assert len(answer["rows"]) == min(1, len(events))
        assert all(0 <= place <= 1 for place in answer["places"])
