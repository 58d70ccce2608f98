"""Reads tool results: the thread's message has the result, and the run's event and step refer to it.

The message is kept longest: events may expire and runs may be removed while the thread keeps its messages. All three
are written in one transaction. A short result is written in each of them, since a reference would be as long. Rows of
earlier releases have the result themselves and are read as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import orjson
from sqlalchemy import Connection, bindparam, select

from bus.journal.log.pages import PAGE_BYTES
from bus.payloads import Payload, ToolResultPayload, decode
from config.database.tables import messages

RESULT_IN = "result_in"
"""The field that replaces an event's or a step's ``result``: the id of the message that has it."""
RESULT_BYTES = "result_bytes"
"""The field beside it in an event: the bytes of the result as JSON, for the size of pages."""
GONE = "[the message with this result was removed]"


def with_references(rows: list[Any]) -> tuple[list[Any], dict[int, ToolResultPayload]]:
    """Return as many rows of events as fit into a page together with the results they refer to, at least one.

    The second value has the payloads with a reference, by their number, still without the result.
    """
    referring: dict[int, ToolResultPayload] = {}
    size = 0
    for place, row in enumerate(rows):
        size += len(row.data_json)
        if row.type == "tool_result" and RESULT_IN in row.data_json:
            payload = decode(row.data_json)
            if isinstance(payload, ToolResultPayload) and RESULT_IN in payload.extra:
                size += int(payload.extra.get(RESULT_BYTES, 0))
                referring[row.seq] = payload
        if size >= PAGE_BYTES:
            return rows[: place + 1], referring
    return rows, referring


def with_results(connection: Connection, run_id: str, referring: Collection[ToolResultPayload]) -> list[Payload]:
    """Return a run's payloads with their references replaced by the results."""
    if not referring:
        return []
    ids = [str(payload.extra[RESULT_IN]) for payload in referring]
    rows = connection.execute(_HOLDERS, {"run_": run_id, "ids_": ids}).all()
    found = {row.id: orjson.loads(row.data_json).get("result") for row in rows}
    return [_with_result(payload, found) for payload in referring]


_HOLDERS = select(messages.c.id, messages.c.data_json).where(
    messages.c.run_id == bindparam("run_"), messages.c.id.in_(bindparam("ids_", expanding=True))
)


def _with_result(payload: ToolResultPayload, found: Mapping[str, Any]) -> Payload:
    extra = {name: value for name, value in payload.extra.items() if name not in (RESULT_IN, RESULT_BYTES)}
    return replace(payload, result=found.get(str(payload.extra[RESULT_IN]), GONE), extra=extra)
