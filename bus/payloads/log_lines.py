"""The parts of which an event's line in a log is made."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from bus.payloads.payload import Record


def given(record: Record, name: str, template: str) -> str:
    """Return ``template`` with the field's value, or nothing where the field is absent."""
    return template.format(record[name]) if name in record else ""


def text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def call_text(name: Any, arguments: Any) -> str:
    if not isinstance(arguments, Mapping):
        return f"{name}(…)"
    return f"{name}({', '.join(f'{key}={json.dumps(value, ensure_ascii=False)}' for key, value in arguments.items())})"


def calls_text(calls: Iterable[Any]) -> str:
    """Return the calls of a message as their tool events show them; a shortened list ends with a text."""
    return "; ".join(
        call_text(call.get("name"), call.get("arguments")) if isinstance(call, Mapping) else str(call) for call in calls
    )
