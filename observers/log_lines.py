"""One record, one line: for a person in columns, for a machine as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

Record = Mapping[str, Any]

# Everything that ends a line somewhere, moves a terminal's cursor, reverses or hides text, or cannot
# be encoded. The joiners U+200C and U+200D stay: scripts and emoji need them.
_HOSTILE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)


def one_line(text: str) -> str:
    """Return the text with every character escaped that could break, colour or hide a line."""
    return text.translate(_escapes()) if _HOSTILE.search(text) else text


def json_line(record: Record) -> str:
    """Return the record as one line of ASCII JSON, ``at`` and ``run_id`` first."""
    return json.dumps(record, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def text_line(record: Record) -> str:
    """Return the record as columns: time, run, number, agent, type, and what happened."""
    kind = str(record["type"])
    body = _BODIES.get(kind, _fields)(record)
    ids = _ids(record, ("call_id", "approval_id", "message_id", "thread_id", "model", "principal"))
    columns = (
        str(record.get("at", "")).ljust(24),
        str(record["run_id"]).replace(" ", "_").ljust(30),
        str(record.get("seq", 0)).rjust(5),
        str(record.get("agent_id", "")).ljust(12),
        kind.ljust(11),
        f"{body}  ({ids})" if ids else body,
    )
    return one_line("  ".join(columns)).rstrip()


@lru_cache(maxsize=1)
def _escapes() -> Mapping[int, str]:
    """Return what stands for each of these characters."""
    hostile = (*range(0x10000), *range(0xE0000, 0xE0080))
    return {code: _escape(code) for code in hostile if _HOSTILE.match(chr(code))}


def _escape(code: int) -> str:
    short = {0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t"}.get(code)
    return short or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")


def _ids(record: Record, names: tuple[str, ...]) -> str:
    wanted = names if record["type"] == "status" else tuple(name for name in names if name != "thread_id")
    return " ".join(f"{name.removesuffix('_id')}={record[name]}" for name in wanted if name in record)


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _call(name: Any, arguments: Any) -> str:
    if not isinstance(arguments, Mapping):
        return f"{name}(…)"
    return f"{name}({', '.join(f'{key}={json.dumps(value, ensure_ascii=False)}' for key, value in arguments.items())})"


def _status(record: Record) -> str:
    attempt = f", attempt {record['attempt']}" if "attempt" in record else ""
    reason = f": {record['reason']}" if "reason" in record else ""
    return f"{record['status']}{attempt}{reason}"


def _piece(record: Record) -> str:
    return str(record.get("content", ""))


def _tool(record: Record) -> str:
    effect = f" [{record['effect']}]" if "effect" in record else ""
    return _call(record["name"], record.get("arguments")) + effect


def _tool_result(record: Record) -> str:
    took = f" in {record['duration_ms']} ms" if "duration_ms" in record else ""
    result = f": {_value(record['result'])}" if "result" in record else ""
    return f"{record['name']} {record['outcome']}{took}{result}"


def _approval(record: Record) -> str:
    if "decision" in record:
        return f"{record['decision']} by {record.get('by', 'nobody')}"
    return f"asked: {_call(record.get('name', 'the run'), record.get('arguments'))}"


def _message(record: Record) -> str:
    cut = " (cut off)" if record.get("partial") else ""
    thought = f" <thought: {record['reasoning']}>" if "reasoning" in record else ""
    calls = f" <calls: {_value(record['tool_calls'])}>" if record.get("tool_calls") else ""
    return f"{record['role']}{cut}: {record.get('content', '')}{thought}{calls}"


def _child(record: Record) -> str:
    return f"{record['agent']} {record['child_run_id']} {record['status']}"


def _withdrawn(record: Record) -> str:
    return ", ".join("-".join(str(number) for number in pair) for pair in record["ranges"])


def _error(record: Record) -> str:
    attempt = f", attempt {record['attempt']}" if "attempt" in record else ""
    again = f", again in {record['retry_in_ms']} ms" if "retry_in_ms" in record else ""
    return f"{record['code']}: {record['message']}{attempt}{again}"


def _end(record: Record) -> str:
    """Return how the run ended; its output is the line of its last message."""
    parts = [str(record["status"])]
    parts += [str(record["reason"])] if "reason" in record else []
    parts += [f"{key}={value}" for key, value in (record.get("usage") or {}).items()]
    parts += [f"{name}={record[name]}" for name in ("cost_usd", "steps", "duration_ms") if name in record]
    return " ".join(parts)


def _fields(record: Record) -> str:
    known = ("at", "run_id", "seq", "agent_id", "type", "thread_id")
    return json.dumps({key: value for key, value in record.items() if key not in known}, ensure_ascii=False)


_BODIES: dict[str, Callable[[Record], str]] = {
    "status": _status,
    "response": _piece,
    "reasoning": _piece,
    "tool": _tool,
    "tool_result": _tool_result,
    "approval": _approval,
    "message": _message,
    "child": _child,
    "withdrawn": _withdrawn,
    "error": _error,
    "end": _end,
}
