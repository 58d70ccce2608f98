"""One record, one line: for a person in columns, for a machine as JSON."""

from __future__ import annotations

import json

from bus.payloads import EVENT_TYPES, Payload, Record
from config.logs import one_line


def json_line(record: Record) -> str:
    """Return the record as one line of ASCII JSON, ``at`` and ``run_id`` first."""
    return json.dumps(record, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def text_line(record: Record) -> str:
    """Return the record as columns: time, run, number, agent, type, and what happened."""
    kind = str(record["type"])
    body = EVENT_TYPES.get(kind, Payload).log_line(record)
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


def _ids(record: Record, names: tuple[str, ...]) -> str:
    wanted = names if record["type"] == "status" else tuple(name for name in names if name != "thread_id")
    return " ".join(f"{name.removesuffix('_id')}={record[name]}" for name in wanted if name in record)
