"""Every invariant of a run fails on a record in which it is broken, and says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import orjson
import pytest

from agents.models.errors import ModelFailed
from agents.testing import AgentKit, Call, Turn
from agents.tools import tool
from bus.journal.approvals import Decision
from bus.journal.readers import Line, RunRecord, SummaryRecord, read_record
from bus.payloads import ApprovalPayload
from cli.crashlab.effects import Effects
from cli.crashlab.invariants import (
    breaches,
    changes,
    differences,
    log_breaches,
    not_recovered,
    summary_breaches,
    thread_breaches,
    view_breaches,
)
from cli.crashlab.ledger import Entry
from cli.crashlab.trial import AttemptResult
from config.ids import canonical_digest

Change = Callable[[RunRecord], RunRecord]


@tool(effect="unsafe")
def pay(value: str) -> str:
    """Pay over a connection that breaks."""
    raise ConnectionResetError("the bank hung up before it answered")


@pytest.fixture(scope="module")
def right() -> RunRecord:
    """A run with a call whose outcome a person knew and a text for its model, a withdrawn beginning of an answer, and
    two owners."""
    broken_off = Turn(text="It is pa", error=ModelFailed("busy", retry_after_s=0.0), error_after=1)
    with AgentKit(tools=[pay]) as kit:
        kit.model.script(Turn(calls=[Call(name="pay", arguments={"value": "5"})]), broken_off, Turn(text="Paid it."))
        handle = kit.run("Pay.", thread_id="talk")
        for event in handle.events():
            if isinstance(event, ApprovalPayload) and event.decision is None:
                kit.runner.steer(handle.run_id, "Say how much.")
                handle.decide(event.approval_id, Decision(decision="take_as_done", result="paid"))
        kit.runner.settle(10)
        with kit.runner.journal.database.read() as connection:
            record = read_record(connection, "talk")
    assert record is not None
    return record


def test_nothing_is_wrong_with_a_run_that_is_right(right: RunRecord) -> None:
    assert not_recovered(right) == []
    assert differences(right, right) == []
    assert [*changes(right, right), *thread_breaches([right]), *view_breaches(right, right.events)] == []


# --- what a test breaks -----------------------------------------------------------------------------


def run(**fields: Any) -> Change:
    """Change columns of the run's row."""
    return lambda record: replace(record, run={**record.run, **fields})


def lines(change: Callable[[list[Line]], list[Line]]) -> Change:
    return lambda record: replace(record, lines=change(list(record.lines)))


def without(kind: str) -> Change:
    """Take the events of a type out of the log."""
    return lines(lambda log: [line for line in log if line.type != kind])


def event(kind: str, **fields: Any) -> Change:
    """Change fields of the last event of a type."""

    def change(log: list[Line]) -> list[Line]:
        index = max(position for position, line in enumerate(log) if line.type == kind)
        data = {**orjson.loads(log[index].data), **fields}
        return [*log[:index], Line(data["seq"], kind, orjson.dumps(data)), *log[index + 1 :]]

    return lines(change)


def rows(**fields: Any) -> Change:
    """Change every row of the log."""
    return lambda record: replace(record, rows=[row._replace(**fields) for row in record.rows])


def step(**fields: Any) -> Change:
    """Change every step."""
    return lambda record: replace(record, steps=[{**step, **fields} for step in record.steps])


def approval(**fields: Any) -> Change:
    return lambda record: replace(record, approvals=[{**row, **fields} for row in record.approvals])


def control(**fields: Any) -> Change:
    return lambda record: replace(record, controls=[{**row, **fields} for row in record.controls])


def messages(change: Callable[[list[Any]], list[Any]]) -> Change:
    return lambda record: replace(record, messages=change(list(record.messages)))


def both(*parts: Change) -> Change:
    def change(record: RunRecord) -> RunRecord:
        for part in parts:
            record = part(record)
        return record

    return change


def status_line(seq: int) -> Line:
    return Line(seq, "status", orjson.dumps({"seq": seq, "type": "status", "status": "moved"}))


BROKEN: dict[str, Change] = {
    "do not increase": lines(lambda log: [log[1], log[0], *log[2:]]),
    "event numbers of its log do not increase": both(run(status="running"), lines(lambda log: [log[1], *log[:-1]])),
    "missing and not withdrawn": without("withdrawn"),
    "not have exactly one end": without("end"),
    "not have exactly one end event as its last": lines(lambda log: [*log, status_line(log[-1].seq + 1)]),
    "has an end, and the run is running": run(status="running"),
    "and the run is failed": run(status="failed"),
    "and the run is succeeded at 900": run(reserved_to=900),
    "a number that was not reserved": run(reserved_to=3),
    "neither final nor withdrawn": both(without("message"), run(declared_to=50)),
    "an earlier owner wrote to its log after a later one": lambda record: replace(record, rows=record.rows[::-1]),
    "an earlier owner wrote to its log": rows(fence=99),
    "it had several owners under one fence": rows(fence=1),
    "it had several owners": event("status", status="running", attempt=9, at="2026-01-01T00:00:00Z"),
    "began under fence 9, which no owner had": step(fence=9),
    "it has 1 crashes, and lost its owners []": run(crashes=1),
    "and lost its owners [1, 1]": run(crashes=2, crashes_json='[{"attempt": 1}, {"attempt": 1}]'),
    "its owner is own_1": run(owner="own_1"),
    "it ended at None": run(ended_ms=None),
    "its thread still names it as open": lambda record: replace(record, open_run=record.run["id"]),
    "has no end": step(ended_ms=None),
    "two of its steps have one idempotency key": step(idempotency_key="key_1"),
    "has 2 results": lambda record: replace(record, rows=[*record.rows, *record.rows]),
    "and its message is 'Paid it.'": event("response", content="Paid"),
    "its deltas add up to None": without("response"),
    "was decided fail, and its log has ['asked', 'take_as_done']": approval(decision="fail"),
    "was used before it was decided": approval(used_ms=1),
    "shows other arguments than those it is bound to": approval(arguments_json='{"value": "a million"}'),
    "is about another call than its step's": approval(
        arguments_json='{"value": "a million"}', digest=canonical_digest({"value": "a million"})
    ),
    "was begun without the approval it needs": approval(kind="call", decision="reject"),
    "its steer ctl_1 is undelivered, and its log answers it with ['consumed']": control(state="undelivered"),
    "its steer ctl_1 is consumed, and its log answers it with []": without("control"),
    "has the text of ctl_1 0 times": messages(lambda history: [m for m in history if "control_id" not in m]),
    "has the text of ctl_1 2 times": messages(lambda history: [*history, *history]),
    "a call has no result before the next answer": messages(
        lambda history: [m for m in history if m["role"] != "tool"]
    ),
    "a call has no result": messages(lambda history: history[:2]),
    "a result belongs to no call": messages(lambda history: [history[0], *history[2:]]),
    "and its history": event("tool_result", outcome="failed"),
    "its log has": messages(lambda history: [*history[:-1], {**history[-1], "content": "Paid nothing."}]),
}


@pytest.mark.parametrize("sentence", BROKEN)
def test_each_breach_is_named(sentence: str, right: RunRecord) -> None:
    problems = list(breaches(BROKEN[sentence](right)))

    assert any(sentence in breach for breach in problems), problems


def test_a_run_that_is_gone_or_did_not_end_is_a_breach(right: RunRecord) -> None:
    assert not_recovered(None) == ["the run is missing"]
    assert not_recovered(run(status="waiting", detail="for code")(right)) == ["it did not end: waiting, for code"]


@pytest.mark.parametrize(
    ("sentence", "change"),
    [
        ("its fence fell from", run(fence=0)),
        ("lost or changed the events", without("status")),
        ("it ended succeeded and is failed", run(status="failed")),
    ],
)
def test_what_may_not_change_is_named(sentence: str, change: Change, right: RunRecord) -> None:
    (difference,) = changes(right, change(right))

    assert sentence in difference


def test_two_runs_of_a_thread_with_owners_at_once_are_named(right: RunRecord) -> None:
    begun = run(status="running", id="run_2")(right)

    assert "two runs of a thread at once: ['run_2']" in next(thread_breaches([run(status="queued")(right), begun]))
    assert "run_2 had an owner before" in next(thread_breaches([right, begun]))


def summary(messages: Sequence[Any], **fields: Any) -> SummaryRecord:
    row = {"id": "sum_1", "agent_id": "tester", "upto_turn": 1, "upto_number": len(messages), "text": "They paid."}
    return SummaryRecord({**row, **fields}, messages)


def test_a_summary_that_is_not_whole_is_named(right: RunRecord) -> None:
    whole = summary(right.messages)

    assert list(summary_breaches([whole, summary(right.messages, upto_number=1)])) == []
    assert list(summary_breaches([whole, whole])) == ["2 summaries for tester end at message 5"]
    assert list(summary_breaches([summary(right.messages, text="")])) == ["the summary sum_1 is empty"]
    assert "does not end behind a whole answer: a call has no" in next(summary_breaches([summary(right.messages[:2])]))


SEEN: dict[str, Callable[[list[dict[str, Any]]], list[dict[str, Any]]]] = {
    "numbers twice or out of order": lambda seen: [seen[0], *seen],
    "a viewer missed [1]": lambda seen: seen[1:],
    "other events than the log has": lambda seen: [{**seen[0], "status": "lost"}, *seen[1:]],
    "events than the log has: [900]": lambda seen: [*seen, {"seq": 900, "type": "status"}],
    "and the log": lambda seen: [event for event in seen if event["type"] != "response"],
}


@pytest.mark.parametrize("sentence", SEEN)
def test_what_a_viewer_saw_otherwise_is_named(sentence: str, right: RunRecord) -> None:
    problems = list(view_breaches(right, SEEN[sentence](right.events)))

    assert any(sentence in breach for breach in problems), problems


def test_a_viewer_that_left_early_saw_what_was_withdrawn_later(right: RunRecord) -> None:
    seen = [event for event in right.events if event["type"] != "end"]

    assert list(view_breaches(right, seen)) == []
    assert "exactly one end" in next(log_breaches(right.lines[:-1]))


def test_another_answer_is_a_difference(right: RunRecord) -> None:
    other = both(run(output="No."), messages(lambda history: history[:-1]))(right)

    output, conversation = differences(other, right)

    assert "its output is 'No.' instead of 'Paid it.'" in output
    assert "the conversation has" in conversation


# --- effects ----------------------------------------------------------------------------------------


def paid_by(**fields: Any) -> RunRecord:
    """Return a run with one call."""
    defaults = {"id": "step_1", "number": 1, "name": "pay", "effect": "unsafe", "idempotency_key": "key_1"}
    return RunRecord(run={}, steps=[defaults | fields], messages=(), lines=(), rows=(), approvals=())


def entry(mark: str = "began", key: str = "key_1", says: str | None = "unsafe") -> Entry:
    return Entry(mark=mark, tool="pay", says=says, key=key, call_id="c1", arguments={"value": "5"})


def judged(record: RunRecord, *entries: Entry, trust: bool = False) -> tuple[list[str], dict[str, int]]:
    its = Effects([record], entries, trust_overrides=trust)
    return list(its.breaches()), dict(its.counted())


PAID = 'pay {"value":"5"}'


def test_an_unsafe_call_that_arrived_once_is_fine():
    assert judged(paid_by(), entry(), entry("returned")) == ([], {PAID: 1})


def test_an_unsafe_call_that_arrived_twice_is_reported_once():
    violations, counted = judged(paid_by(), entry(), entry(), entry())

    assert violations == ["`pay` took effect twice, and no person decided to run it again"]
    assert counted == {PAID: 3}


def test_a_person_may_choose_to_run_it_again():
    chosen = {"step_id": "step_1", "decision": "run_again", "used_ms": 1}
    record = replace(paid_by(), approvals=[chosen])

    assert judged(record, entry(), entry()) == ([], {PAID: 2})


def test_a_tool_is_believed_before_the_agents_file():
    record = paid_by(effect="pure")

    violations, counted = judged(record, entry(), entry())

    assert violations == ["`pay` took effect twice: it says unsafe of itself, and the agent's file says pure"]
    assert counted == {PAID: 2}
    assert judged(record, entry(), entry(), trust=True) == ([], {})


def test_a_function_that_says_nothing_is_what_the_file_says():
    record = paid_by(effect="idempotent")

    assert judged(record, entry(says=None), entry(says=None)) == ([], {PAID: 1})


def test_a_stricter_file_is_believed():
    violations, _ = judged(paid_by(), entry(says="pure"), entry(says="pure"))

    assert violations == ["`pay` took effect twice, and no person decided to run it again"]


@pytest.mark.parametrize(("effect", "count"), [("keyed", 1), ("idempotent", 1), ("pure", 0)])
def test_what_may_be_repeated_counts_once_a_key(effect, count):
    record = paid_by(effect=effect)

    violations, counted = judged(record, entry(says=effect), entry(says=effect))

    assert (violations, counted.get(PAID, 0)) == ([], count)


def test_a_call_without_a_recorded_step_is_reported():
    violations, _ = judged(paid_by(), entry(key="key_2"))

    assert violations == ["`pay` was called under a key that no recorded step has"]


def test_a_call_whose_result_was_recorded_is_not_made_again():
    record = paid_by(effect="pure")
    calls = [entry(says="pure"), entry("returned", says="pure"), entry(says="pure")]
    later = AttemptResult(records=[record], recorded=frozenset({"key_1"}), arrived_before=2)

    violations = list(Effects([record], calls, trust_overrides=False, attempt=later).breaches())

    assert violations == ["`pay` was called again although its result was recorded"]
    assert list(Effects([record], calls[:2], trust_overrides=False, attempt=later).breaches()) == []


def test_a_check_that_does_not_know_its_own_call_is_reported():
    record = paid_by(effect="checkable")
    again = (entry(says="checkable"), entry("returned", says="checkable"), entry(says="checkable"))

    violations, _ = judged(record, *again)

    assert violations == ["`pay` was called again: its `check` did not know a call that had returned"]
    assert judged(record, again[0], again[2])[0] == []  # the first one never returned: the check was right
