"""What a run asks, as lines on a terminal: the exact call, why it is asked, until when, and how to answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from bus.payloads import ApprovalPayload

WORDS = {"run_again": "run again", "take_as_done": "take as done", "fail": "fail the run"}
MEANINGS = {
    "run_again": "The call is made once more. If it took effect before, it takes effect twice.",
    "take_as_done": "The call is not made again; the agent goes on with the result you give, if you give one.",
    "fail": "Nothing more is done; the run ends as failed.",
}
INDENT = "    "
MAX_LINE_CHARS = 80


def of_payload(payload: ApprovalPayload) -> Mapping[str, Any]:
    """Return an event that asks in the form in which open questions are listed."""
    return {
        "approval_id": payload.approval_id, "name": payload.name, "arguments": payload.arguments,
        "decisions": payload.decisions, "reason": payload.reason, "expires_at": payload.expires_at,
    }  # fmt: skip


def told(asked: Mapping[str, Any]) -> list[str]:
    """Return a question's lines. Nothing of the call is left out: the answer holds for exactly this one."""
    reason = asked.get("reason") or "A decision is asked for."
    lines = [f"{asked.get('name') or 'the run'} asks: {reason}", *_arguments(asked.get("arguments") or {})]
    if until := asked.get("expires_at"):
        lines.append(f"  Without an answer by {day(until)} the run fails.")
    return lines


def how(run_id: str, asked: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the commands that answer these questions, one each.

    Each may be pasted as it stands and then asks: one that decides when it is pasted carelessly would
    run a call again that nobody wanted twice.
    """
    several = len(asked) > 1
    return [
        f"./callboard approve {run_id}{' ' + one['approval_id'] if several else ''}  "
        f"(or with --decision {_or(one.get('decisions') or tuple(WORDS))})"
        for one in asked
    ]


def word(decision: str) -> str:
    """Return a decision as people say it."""
    return WORDS.get(decision, decision.replace("_", " "))


def day(at: str) -> str:
    """Return a moment to the minute, as everybody reads it the same."""
    return f"{at[:16].replace('T', ' ')} UTC"


def _json(value: Any) -> str:
    """Return a value on one line where it fits on one."""
    line = orjson.dumps(value).decode()
    return line if len(line) <= MAX_LINE_CHARS else orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def _or(words: Sequence[str]) -> str:
    return " or ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


def _arguments(arguments: Mapping[str, Any]) -> Iterator[str]:
    if not arguments:
        yield f"{INDENT}without arguments"
    for name, value in arguments.items():
        text = value if isinstance(value, str) else _json(value)
        first, *rest = text.split("\n")
        yield f"{INDENT}{name}: {first}"
        yield from (f"{INDENT}{' ' * len(name)}  {line}" for line in rest)
