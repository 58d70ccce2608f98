"""The timeline of a run: its events and steps as rows, and the scale they are drawn on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.web.page.conftest import Module

pytestmark = pytest.mark.parity

ROWS = """
  const { RunFacts, timelineRows, stretches, placeOf, timeBy } = await import(`${page}/state/timeline.js`);
  const facts = new RunFacts();
  const at = (s) => new Date(1e12 + s * 1000).toISOString();
  for (const [s, event] of argument.events) facts.add({ at: at(s), ...event });
  const time = ([from, to]) => ({ started_at: at(from), ...(to === null ? {} : { ended_at: at(to) }) });
  const rows = timelineRows(facts, argument.steps.map(({ span, ...step }) => ({ ...step, ...time(span) })));
  const to = facts.to ?? facts.last, seconds = (ms) => (ms === null ? null : (ms - 1e12) / 1000);
  const scale = stretches(rows, facts.from, to, argument.isTrue);
  return {
    rows: rows.map((row) => [row.kind, row.number ?? row.name, seconds(row.from), seconds(row.to), row.state]),
    scale: scale.map(({ from, to, isFolded }) => [seconds(from), seconds(to), isFolded]),
    sum: scale.reduce((sum, { share }) => sum + share, 0),
    places: [0, 5, 40, 100].map((s) => placeOf(scale, 1e12 + s * 1000)),
    by: Object.values(timeBy(rows, facts, to)).map((ms) => ms / 1000),
    retries: rows.map((row) => row.retries?.length ?? 0),
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
        [9, {"type": "status", "status": "queued", "reason": "worker_lost"}],
        [29, {"type": "status", "status": "running", "attempt": 2}],
        [29, {"type": "approval", "approval_id": "a1", "call_id": "c1", "name": "pay"}],
        [29, {"type": "status", "status": "waiting", "reason": "approval"}],
        [89, {"type": "approval", "approval_id": "a1", "decision": "take_as_done", "by": "mara"}],
        [90, {"type": "status", "status": "running", "attempt": 3}],
        [99, {"type": "end", "status": "succeeded"}],
    ],
    "steps": [
        {"id": "m1", "kind": "model", "name": "m", "status": "done", "span": [1, 5]},
        {"id": "t1", "kind": "tool", "name": "pay", "status": "unknown", "call_id": "c1", "span": [5, 9]},
        {"id": "m2", "kind": "model", "name": "m", "status": "done", "span": [90, 99]},
    ],
    "isTrue": False,
}


def test_a_lost_worker_and_a_person_are_attempts_and_a_question_between_the_calls(module: Module) -> None:
    answer = module(ROWS, LOST)

    assert answer["rows"] == [
        ["attempt", 1, 1, 9, "worker_lost"],
        ["model", "m", 1, 5, "done"],
        ["tool", "pay", 5, 9, "unknown"],
        ["attempt", 2, 29, 29, "approval"],
        ["question", "pay", 29, 89, "take_as_done"],
        ["attempt", 3, 90, 99, "succeeded"],
        ["model", "m", 90, 99, "done"],
    ]
    assert answer["retries"][1] == 1
    assert answer["by"] == [13, 4, 60, 20]


def test_waits_are_folded_and_the_scale_keeps_the_order(module: Module) -> None:
    answer = module(ROWS, LOST)

    assert answer["scale"] == [[0, 9, False], [9, 90, True], [90, 99, False]]
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
        [1, {"type": "approval", "approval_id": "a1", "call_id": "c1", "name": "pay"}],
    ]
    step = {"id": "t1", "kind": "tool", "name": "pay", "call_id": "c1"}
    later = [*events, [61, {"type": "approval", "approval_id": "a1", "decision": "approve", "by": "mara"}]]

    before = module(ROWS, {"events": events, "steps": [step | {"status": "planned", "span": [1, None]}]})
    after = module(ROWS, {"events": later, "steps": [step | {"status": "done", "span": [1, 62]}]})

    assert [row[0] for row in before["rows"]] == ["attempt", "question"]
    assert after["rows"][2] == ["tool", "pay", 61, 62, "done"]


def test_no_event_and_one_event_are_drawn(module: Module) -> None:
    for events in ([], [[0, {"type": "status", "status": "queued"}]], [[0, {"type": "unknown"}], [0, {"at": "never"}]]):
        answer = module(ROWS, {"events": events, "steps": []})

        assert len(answer["rows"]) == 1
        assert all(0 <= place <= 1 for place in answer["places"])
