"""What is logged of one event: its fields without secrets, bounded, as plain JSON values, and the line of them.

Text that arrives in pieces is released only where the cut splits no secret.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from bus.payloads import EVENT_TYPES, Payload, Record
from config.clock import stamp
from config.redaction import REDACTED, redact, redact_start
from config.text.visible import one_line
from observers.base import AgentFacts, RunFacts

MAX_CHARS = 65_536
"""Characters of one string that are logged."""
MAX_ITEMS = 1000
"""Items of one list or object that are logged."""
MAX_DEPTH = 20
_OF_TRACE = ("trace_id", "correlation_id")


def record_of(agent: AgentFacts, payload: Payload, context: RunFacts) -> dict[str, Any]:
    """Return the event as it may be logged: ids first, then the payload's own fields; absent is absent."""
    record: dict[str, Any] = {
        "at": payload.at or stamp(),
        "run_id": context.run_id,
        "seq": payload.seq,
        "agent_id": agent.id,
        "type": payload.event_type,
        "thread_id": context.thread_id,
        "tenant": context.tenant,
        "principal": context.principal,
    }
    if payload.type == "status":
        record |= {"model": agent.model, "trace_id": context.trace_id, "correlation_id": context.correlation_id}
    own = {name: getattr(payload, name) for name, _ in payload.own_fields}
    record |= {name: value for name, value in own.items() if value is not None}  # a run's first event alone has its ids
    record |= {key: value for key, value in payload.extra.items() if key not in record}
    return {key: cleaned(value, key) for key, value in record.items() if value is not None and value != ""}


def json_line(record: Record) -> str:
    """Return the record as one line of ASCII JSON, ``at`` and ``run_id`` first."""
    return json.dumps(record, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def text_line(record: Record) -> str:
    """Return the record as columns: time, run, number, agent, type, and what happened."""
    kind = str(record["type"])
    body = EVENT_TYPES.get(kind, Payload).log_line(record)
    ids = _ids(record, ("call_id", "approval_id", "message_id", "thread_id", "model", "principal", *_OF_TRACE))
    columns = (
        str(record.get("at", "")).ljust(24),
        str(record["run_id"]).replace(" ", "_").ljust(30),
        str(record.get("seq", 0)).rjust(5),
        str(record.get("agent_id", "")).ljust(12),
        kind.ljust(11),
        f"{body}  ({ids})" if ids else body,
    )
    return one_line("  ".join(columns)).rstrip()


def _ids(record: Record, names: tuple[str, ...]) -> str:
    once = ("thread_id", "principal")  # a run's first line has them
    fields = names if record["type"] == "status" else tuple(name for name in names if name not in once)
    return " ".join(f"{name.removesuffix('_id')}={record[name]}" for name in fields if name in record)


def cleaned(value: Any, name: str = "", depth: int = 0) -> Any:
    """Return ``value`` as JSON values without secrets; ``name`` is the name of its field."""
    match value:
        case None | bool():
            return value
        case int():
            return value if value.bit_length() < 1000 else f"a number of {value.bit_length()} bits"
        case float():
            return value if math.isfinite(value) else str(value)
        case str():
            return _clean_text(value, name)
        case _ if depth >= MAX_DEPTH:
            return "…"
        case Mapping():
            pairs = islice(value.items(), MAX_ITEMS)
            items = {_clean_text(str(key), ""): cleaned(item, str(key), depth + 1) for key, item in pairs}
            return items | _more(len(value))
        case list() | tuple() | set() | frozenset():
            return [*(cleaned(item, name, depth + 1) for item in islice(value, MAX_ITEMS)), *_more(len(value))]
        case _:
            return _clean_text(_text_of(value), name)


def _clean_text(text: str, name: str) -> str:
    clean_text = redact_start(text, MAX_CHARS)
    # "password": "..." says by its name what the value alone does not.
    if name and clean_text == text and redact(f"{name}={text}") != f"{name}={text}":
        return REDACTED
    if len(text) > MAX_CHARS:
        return f"{clean_text}… ({len(text) - MAX_CHARS} more characters)"
    return clean_text


def _more(count: int) -> dict[str, str]:
    return {f"… ({count - MAX_ITEMS} more)": "…"} if count > MAX_ITEMS else {}


def _text_of(value: object) -> str:
    try:
        return str(value)
    except Exception:  # a foreign __str__ may raise anything
        return f"<{type(value).__name__}>"


HELD_CHARS = 256
"""Characters kept back: what follows them may show that they belong to a secret."""
STEP_CHARS = 256
"""Characters gathered before another cut is tried."""
MAX_HELD_CHARS = 65_536
"""Characters held at most; a message that offers no cut until then is cut anyway."""


class HeldText:
    """Gathers the pieces of one message; ``add`` and ``rest`` return redacted text."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._text = ""
        self._next = HELD_CHARS + STEP_CHARS

    def add(self, piece: str) -> str:
        """Keep the piece, and return what can be written by now, often nothing."""
        self._text += piece
        if len(self._text) < self._next:
            return ""
        if len(self._text) > MAX_HELD_CHARS:
            return self.rest()
        # Twice as far the next time: a text that offers no cut would be examined again for each step.
        self._next = max(2 * len(self._text), len(self._text) + STEP_CHARS)
        return self._cut()

    def rest(self) -> str:
        """Return all that is left; nothing is held afterwards."""
        text, self._text = self._text, ""
        self._next = HELD_CHARS + STEP_CHARS
        return self._redact(text)

    def _cut(self) -> str:
        at = _last_blank(self._text, len(self._text) - HELD_CHARS)
        head, tail = self._text[:at], self._text[at:]
        safe = self._redact(head)
        # A secret across the cut shows in the whole and not in the parts. Of a key in a PEM block only
        # the first line is certain to be recognised before its last line has come.
        if not head or _in_pem(head) or safe + self._redact(tail) != self._redact(self._text):
            return ""
        self._text = tail
        self._next = len(tail) + STEP_CHARS
        return safe


def _last_blank(text: str, end: int) -> int:
    """Return the place behind the last blank or line end before ``end``, or 0."""
    return max(text.rfind(" ", 0, end), text.rfind("\n", 0, end)) + 1


def _in_pem(text: str) -> bool:
    return text.rfind("-----BEGIN ") > text.rfind("-----END ")
