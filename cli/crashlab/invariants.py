"""The invariants of a run, whatever was done to it; each breach is a sentence.

The crash lab, the soak, and the state machine and random schedules of the journal's tests check the same ones here:
the order of the log and its one end, the steps, the history, the approvals and controls, one owner at a time, the
thread's summaries, and what viewers see.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from bus.journal.clients import WORKFLOW
from bus.journal.readers import Line, RunRecord, SummaryRecord
from config.ids import canonical_digest

Facts = Mapping[str, Any]
Texts = dict[tuple[str, str], str]
"""The text of each message by its id and kind (response or reasoning)."""
TEXTS = {"response": "content", "reasoning": "reasoning"}
"""Type of a delta of text -> the field of the message that holds the whole text."""
REMEMBERED = ("content", "reasoning", "call_id", "outcome", "result")
"""Fields that an event and its message in the history have in common."""


def not_recovered(record: RunRecord | None) -> list[str]:
    """Return the breaches in the record of a run that was resumed until its end."""
    if record is None:
        return ["the run is missing"]
    if not record.is_over:
        waits = record.run.get("detail") or record.run.get("reason") or "without a reason"
        return [f"it did not end: {record.run['status']}, {waits}"]
    return [*breaches(record), *undecided(record)]


def undecided(record: RunRecord) -> Iterator[str]:
    """Yield the calls of models and tools that were begun without a decision of the policy."""
    for step in record.steps:
        is_call = step["kind"] in ("model", "sample") or (step["kind"] == "tool" and step["effect"] is not None)
        if is_call and step["decision_json"] is None:
            yield f"its step {step['number']} ({step['name']}) was begun without a decision of the policy"


def breaches(record: RunRecord) -> Iterator[str]:
    """Yield what does not hold of a run; some rules apply only after its end."""
    yield from _log(record)
    yield from _steps(record)
    yield from _approvals(record)
    yield from _controls(record)
    yield from _history(record)
    yield from _owners(record)
    if record.is_over:
        yield from _end(record)


def changes(before: RunRecord, after: RunRecord) -> Iterator[str]:
    """Yield what must not happen to a run between two moments."""
    if after.run["fence"] < before.run["fence"]:
        yield f"its fence fell from {before.run['fence']} to {after.run['fence']}"
    if gone := set(before.lines) - set(after.lines):
        yield f"its log lost or changed the events {sorted(line.seq for line in gone)[:5]}"
    if before.is_over and before.run["status"] != after.run["status"]:
        yield f"it ended {before.run['status']} and is {after.run['status']}"


def differences(record: RunRecord, undisturbed: RunRecord) -> list[str]:
    """Return how a run's end differs from the undisturbed run's; for deterministic models."""
    violations = []
    for field in ("reason", "output", "not_undone"):
        ours, theirs = _at_the_end(record, field), _at_the_end(undisturbed, field)
        if ours != theirs:
            violations.append(f"its {field} is {ours!r:.200} instead of {theirs!r:.200}")
    if record.story != undisturbed.story:
        more = [part for part in record.story if part not in undisturbed.story]
        less = [part for part in undisturbed.story if part not in record.story]
        violations.append(f"the conversation has {more!r:.300} instead of {less!r:.300}")
    return violations


def _at_the_end(record: RunRecord, field: str) -> Any:
    return record.run.get(field, record.events[-1].get(field) if record.events else None)


# --- the log ------------------------------------------------------------------------------------------


def log_breaches(lines: Sequence[Line]) -> Iterator[str]:
    """Yield what does not hold of a whole log, or of everything that one reader saw of it."""
    numbers = [line.seq for line in lines]
    if numbers != sorted(set(numbers)):
        yield f"the event numbers of its log do not increase: {numbers}"
    if [line.seq for line in lines if line.is_end] != numbers[-1:]:
        yield "its log does not have exactly one end event as its last"
    if holes := sorted(set(range(1, max(numbers, default=0))) - withdrawn(lines) - set(numbers)):
        yield f"event numbers are missing and not withdrawn: {holes[:5]}"


def _log(record: RunRecord) -> Iterator[str]:
    if record.is_over:
        yield from log_breaches(record.lines)
    else:
        numbers = [line.seq for line in record.lines]
        if numbers != sorted(set(numbers)):
            yield f"the event numbers of its log do not increase: {numbers}"
        if any(line.is_end for line in record.lines):
            yield f"its log has an end, and the run is {record.run['status']}"
    if record.lines and record.lines[-1].seq > record.run["reserved_to"]:
        yield f"event {record.lines[-1].seq} has a number that was not reserved"
    whole = {event["message_id"] for event in record.events if event["type"] == "message"}
    final = {e["seq"] for e in record.events if not is_piece(e) or e.get("message_id") in whole}
    if open_numbers := set(range(1, record.run["declared_to"] + 1)) - final - withdrawn(record.lines):
        yield f"below {record.run['declared_to']} neither final nor withdrawn: {sorted(open_numbers)[:5]}"


def _end(record: RunRecord) -> Iterator[str]:
    run, last = record.run, record.events[-1] if record.events else {}
    if last.get("type") == "end" and (last["status"], last["seq"]) != (run["status"], run["reserved_to"]):
        yield f"its log ends {last['status']} at {last['seq']}, and the run is {run['status']} at {run['reserved_to']}"
    if run["owner"] is not None or run["ended_ms"] is None:
        yield f"it ended at {run['ended_ms']} and its owner is {run['owner']}"
    if record.open_run == run["id"]:
        yield "its thread still names it as open"
    for step in record.steps:
        if step["ended_ms"] is None:
            yield f"its step {step['number']} ({step['name']}) has no end"
    pieced, final = pieced_texts(record.events), final_texts(record.events)
    for message in sorted(pieced.keys() | final.keys()):
        if pieced.get(message) != final.get(message):
            yield f"its deltas add up to {pieced.get(message)!r:.100} and its message is {final.get(message)!r:.100}"


# --- steps, approvals, history ------------------------------------------------------------------------


def _steps(record: RunRecord) -> Iterator[str]:
    if len({step["idempotency_key"] for step in record.steps}) != len(record.steps):
        yield "two of its steps have one idempotency key"
    results = Counter(row.step_id for row in record.rows if row.type in ("tool_result", "message"))
    for step in record.steps:
        if results[step["id"]] > 1:
            yield f"its step {step['number']} ({step['name']}) has {results[step['id']]} results"


def _approvals(record: RunRecord) -> Iterator[str]:
    steps = {step["id"]: step for step in record.steps}
    for row in record.approvals:
        logged = [
            event.get("decision", "asked")
            for event in record.events
            if event.get("approval_id") == row["id"] and ("decision" in event or "approved_by" not in event)
        ]
        if logged != ["asked", *([row["decision"]] if row["decision"] else [])]:
            yield f"its approval {row['id']} was decided {row['decision']}, and its log has {logged}"
        if row["used_ms"] is not None and (row["decided_ms"] is None or row["used_ms"] < row["decided_ms"]):
            yield f"its approval {row['id']} was used before it was decided"
        step, its = (
            steps.get(row["step_id"]),
            [approval for approval in record.approvals if approval["step_id"] == row["step_id"]],
        )
        if row["digest"] != canonical_digest(orjson.loads(row["arguments_json"])):
            yield f"its approval {row['id']} shows other arguments than those it is bound to"
        if step is not None and step["arguments_digest"] not in {row["digest"], *map(_decided_digest, its)}:
            yield f"its approval {row['id']} is about another call than its step's"
        is_gated = step is not None and row["kind"] == "call" and row["decision"] != "take_as_done"
        if step is not None and is_gated and step["status"] in BEGUN and not _is_approved(step, its):
            yield f"its step {step['number']} ({step['name']}) was begun without the approval it needs"


BEGUN = ("started", "done", "unknown")
"""States of a step whose call was made."""


def _is_approved(step: Facts, approvals: Sequence[Facts]) -> bool:
    """Return whether an approval for the arguments of a step was given and used."""
    answers = [answer for answer in approvals if answer["decision"] == "approve" and answer["used_ms"] is not None]
    return any(_decided_digest(answer) == step["arguments_digest"] for answer in answers)


def _decided_digest(approval: Facts) -> str:
    """Return the digest of the arguments that an approval lets a call be made with."""
    decision = orjson.loads(approval["decision_json"]) if approval["decision_json"] else {}
    return str(decision.get("digest") or approval["digest"])


def _controls(record: RunRecord) -> Iterator[str]:
    """Yield the controls that are answered otherwise than once, and the texts that the model did not get once."""
    texts = Counter(message.get("control_id") for message in record.messages)
    for row in record.controls:
        control_id = f"ctl_{row['id']}"
        answers = [event for event in record.events if event.get("control_id") == control_id]
        finals = [answer["state"] for answer in answers if answer["state"] != "accepted"]
        if len(finals) > 1 or (record.is_over and finals != [row["state"]]):
            yield f"its {row['kind']} {control_id} is {row['state']}, and its log answers it with {finals}"
        is_text = any(answer["state"] == "consumed" and answer.get("reason") is None for answer in answers)
        if row["kind"] == "steer" and texts[control_id] != is_text:
            yield f"its history has the text of {control_id} {texts[control_id]} times, and its log says {finals}"


def _history(record: RunRecord) -> Iterator[str]:
    if record.run["kind"] == WORKFLOW:
        return  # its calls are in its log, and no model is shown them
    yield from _results(record.messages, is_over=record.is_over, is_call=bool(record.steps))
    in_log = [_remembered(event) for event in record.events if event["type"] in ("message", "tool_result")]
    in_thread = [_remembered(message) for message in record.messages if message["role"] in ("assistant", "tool")]
    if in_log != in_thread:
        yield f"its log has {in_log!r:.300}, and its history {in_thread!r:.300}"


def _results(messages: Iterable[Facts], *, is_over: bool, is_call: bool) -> Iterator[str]:
    """Yield the calls without a result, and the results without a call."""
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "assistant" or (message.get("tool_calls") and is_call):  # of a run of kind ``tool``
            if open_calls:
                yield f"a call has no result before the next answer: {open_calls[:3]}"
            open_calls = [call["call_id"] for call in message.get("tool_calls") or ()]
        elif message["role"] == "tool":
            if message["call_id"] not in open_calls:
                yield f"a result belongs to no call: {message['name']}"
            else:
                open_calls.remove(message["call_id"])
    if open_calls and is_over:
        yield f"a call has no result: {open_calls[:3]}"


def _remembered(data: Facts) -> list[Any]:
    calls = [(call["call_id"], call["name"]) for call in data.get("tool_calls") or ()]
    return [*(data.get(field) or None for field in REMEMBERED), calls]


# --- one owner ----------------------------------------------------------------------------------------


class RecordedClaim(NamedTuple):
    """One time a run got an owner, as its log has it."""

    fence: int
    attempt: int
    """Which owner it calls itself, from 1."""
    position: int
    """Its place among the events of all runs, which is the order of the commits of one thread's runs."""
    at_ms: int


def claims_of(record: RunRecord) -> list[RecordedClaim]:
    """Return the claims of a run, in order."""
    rows = {row.seq: row for row in record.rows}
    return [
        RecordedClaim(rows[event["seq"]].fence, event["attempt"], rows[event["seq"]].position, _ms(event["at"]))
        for event in record.events
        if event["type"] == "status" and event["status"] == "running" and "attempt" in event
    ]


def _ms(at: str) -> int:
    return round(datetime.fromisoformat(at).timestamp() * 1000)


def _owners(record: RunRecord) -> Iterator[str]:
    fences = [row.fence for row in record.rows]
    if fences != sorted(fences) or max(fences, default=0) > record.run["fence"]:
        yield f"an earlier owner wrote to its log after a later one: {fences}"
    owners = [claim.fence for claim in claims_of(record)]
    if len(set(owners)) != len(owners) or owners != [claim.attempt for claim in claims_of(record)]:
        yield f"it had several owners under one fence: {owners}"
    for step in record.steps:
        if step["fence"] not in owners:
            yield f"its step {step['number']} began under fence {step['fence']}, which no owner had"
    lost = [crash["attempt"] for crash in orjson.loads(record.run["crashes_json"] or "[]")]
    if len(set(lost)) != len(lost) or len(lost) != record.run["crashes"]:
        yield f"it has {record.run['crashes']} crashes, and lost its owners {lost}"


def thread_breaches(records: Sequence[RunRecord]) -> Iterator[str]:
    """Yield what does not hold of a thread's runs, oldest first: each is owned only after the older ones ended."""
    waiting = [record for record in records if not record.is_over][1:]
    if at_once := [record.run["id"] for record in waiting if record.run["status"] != "queued"]:
        yield f"two runs of a thread at once: {at_once} beside an older one"
    last_end, older = 0, ""
    for record in records:
        if any(claim.position < last_end for claim in claims_of(record)):
            yield f"{record.run['id']} had an owner before {older} of the same thread had ended"
        ends = [row.position for row in record.rows if row.type == "end"]
        last_end, older = max([(last_end, older), *((end, record.run["id"]) for end in ends)])


def summary_breaches(summaries: Sequence[SummaryRecord]) -> Iterator[str]:
    """Yield what does not hold of a thread's summaries: each is whole, and of messages that no other one ends at."""
    ends = Counter((row["agent_id"], row["upto_turn"], row["upto_number"]) for row, _ in summaries)
    for (agent_id, _, number), count in ends.items():
        if count > 1:
            yield f"{count} summaries for {agent_id} end at message {number}"
    for row, messages in summaries:
        if not row["text"] or not messages:
            yield f"the summary {row['id']} is empty"
        for breach in _results(messages, is_over=True, is_call=True):
            yield f"the summary {row['id']} does not end behind a whole answer: {breach}"


# --- viewers ------------------------------------------------------------------------------------------


def view_breaches(record: RunRecord, seen: Sequence[Facts]) -> Iterator[str]:
    """Yield how the events that one viewer saw differ from the log, as far as the viewer has read."""
    numbers = [event["seq"] for event in seen]
    if numbers != sorted(set(numbers)):
        yield f"a viewer saw numbers twice or out of order: {numbers}"
    stored = {event["seq"]: event for event in record.events}
    if others := [e["seq"] for e in seen if stored.get(e["seq"], e if is_piece(e) else None) != e]:
        yield f"a viewer saw other events than the log has: {others[:5]}"
    log = [event for event in record.events if event["seq"] <= max(numbers, default=0)]
    if missed := sorted({event["seq"] for event in log if not is_piece(event)} - set(numbers)):
        yield f"a viewer missed {missed[:5]}"
    gone = withdrawn(record.lines)
    ours, theirs = ([event for event in events if event["seq"] not in gone] for events in (seen, log))
    if pieced_texts(ours) != pieced_texts(theirs):
        yield f"a viewer has {pieced_texts(ours)!r:.200}, and the log {pieced_texts(theirs)!r:.200}"


# --- texts --------------------------------------------------------------------------------------------


def is_piece(event: Facts) -> bool:
    """Return whether this is a delta of a message, which may be withdrawn."""
    return event["type"] in TEXTS or (event["type"] == "tool" and "arguments" not in event)


def withdrawn(lines: Iterable[Line]) -> set[int]:
    """Return every number that was withdrawn."""
    return {n for line in lines for first, last in line.withdrawn_ranges for n in range(first, last + 1)}


def pieced_texts(events: Sequence[Facts]) -> Texts:
    """Return the texts that the deltas which were not withdrawn add up to."""
    gone = {
        n for e in events if e["type"] == "withdrawn" for first, last in e["ranges"] for n in range(first, last + 1)
    }
    texts = Texts()
    for event in events:
        if event["type"] in TEXTS and event["seq"] not in gone:
            message = event["message_id"], event["type"]
            texts[message] = texts.get(message, "") + event["content"]
    return texts


def final_texts(events: Iterable[Facts]) -> Texts:
    """Return the texts of the answers."""
    answers = [event for event in events if event["type"] == "message" and event["role"] == "assistant"]
    return {
        (event["message_id"], kind): event[field]
        for event in answers
        for kind, field in TEXTS.items()
        if event.get(field)
    }
