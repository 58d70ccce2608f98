"""What has to hold of a run after any kill, by SQL and by its log; each breach is a sentence."""

from __future__ import annotations

from collections.abc import Iterator

from bus.journal.line import withdrawn_ranges
from web.terminal.crashlab.found import Found


def breaches(found: Found | None) -> list[str]:
    """Return what is wrong with what a run left behind that was gone on with until it ended."""
    if found is None:
        return ["the run is gone"]
    if not found.is_over:
        waits = found.run.get("detail") or found.run.get("reason") or "nothing it tells"
        return [f"it did not end: {found.run['status']}, {waits}"]
    return [*_steps(found), *_log(found), *_history(found)]


def differences(found: Found, undisturbed: Found) -> list[str]:
    """Return how a run ended otherwise than the one that was never killed, where answers are the same each time."""
    wrong = []
    for field in ("reason", "output"):
        ours, theirs = found.run.get(field), undisturbed.run.get(field)
        if ours != theirs:
            wrong.append(f"its {field} is {ours!r:.200} instead of {theirs!r:.200}")
    if found.story != undisturbed.story:
        more = [part for part in found.story if part not in undisturbed.story]
        less = [part for part in undisturbed.story if part not in found.story]
        wrong.append(f"the conversation has {more!r:.300} instead of {less!r:.300}")
    return wrong


# --- what is written down -----------------------------------------------------------------------------


def _steps(found: Found) -> Iterator[str]:
    for step in found.steps:
        if step["ended_ms"] is None:
            yield f"its step {step['number']} ({step['name']}) has no end"
    keys = {step["idempotency_key"] for step in found.steps}
    if len(keys) != len(found.steps):
        yield "two of its steps have one idempotency key"
    if found.open_run is not None:
        yield "its thread still believes a run to be at work"


def _log(found: Found) -> Iterator[str]:
    numbers = [line.seq for line in found.lines]
    gone = {n for line in found.lines for first, last in withdrawn_ranges(line) for n in range(first, last + 1)}
    if numbers != sorted(set(numbers)):
        yield "the numbers of its log do not grow"
    if [line.seq for line in found.lines if line.is_end] != numbers[-1:]:
        yield "its log has not one end, or something behind it"
    elif found.events[-1]["status"] != found.run["status"]:
        yield f"its log ends {found.events[-1]['status']}, and the run is {found.run['status']}"
    holes = sorted(set(range(1, numbers[-1])) - gone - set(numbers)) if numbers else []
    if holes:
        yield f"numbers of its log are missing and not withdrawn: {holes[:5]}"
    if list(found.fences) != sorted(found.fences):
        yield "an earlier owner wrote to its log after a later one"
    yield from _pieces(found, gone)


def _pieces(found: Found, gone: set[int]) -> Iterator[str]:
    """A viewer who pieces the answer together reads what the message says."""
    pieced: dict[str, str] = {}
    final: dict[str, str] = {}
    for event in found.events:
        if event["type"] == "response" and event["seq"] not in gone:
            pieced[event["message_id"]] = pieced.get(event["message_id"], "") + event["content"]
        elif event["type"] == "message" and event["role"] == "assistant":
            final[event["message_id"]] = event.get("content") or ""
    for its, text in pieced.items():
        if final.get(its) != text:
            yield f"its pieces say {text!r:.100} and its message {final.get(its)!r:.100}"


def _history(found: Found) -> Iterator[str]:
    open_calls: list[str] = []
    for message in found.messages:
        if message["role"] == "assistant":
            if open_calls:
                yield f"a call has no result before the next answer: {open_calls[:3]}"
            open_calls = [call["call_id"] for call in message.get("tool_calls", ())]
        elif message["role"] == "tool":
            if message["call_id"] not in open_calls:
                yield f"a result belongs to no call: {message['name']}"
            else:
                open_calls.remove(message["call_id"])
    if open_calls:
        yield f"a call has no result: {open_calls[:3]}"
    told = sorted((e["call_id"], e["outcome"]) for e in found.events if e["type"] == "tool_result")
    kept = sorted((m["call_id"], m["outcome"]) for m in found.messages if m["role"] == "tool")
    if told != kept:
        yield "its log and its thread tell of other results"
