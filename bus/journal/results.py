"""A tool's result in SQL: held once, by the thread's message, to which the run's event and step refer.

The message is what lives longest: events may expire and runs may be removed while what was said stays in its
thread. All three are written in one transaction. A short result stands in each, where a reference would be as long.
Rows of earlier releases hold the result themselves and are read as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
from sqlalchemy import Connection, bindparam, select

from bus.journal.pages import PAGE_BYTES
from bus.payloads import Payload, ToolResultPayload, decode
from config.tables import messages

if TYPE_CHECKING:  # both import the log, which reads results
    from bus.journal.steps import StepEnded
    from bus.journal.threads import HistoryItem

LONG_BYTES = 1024
"""From this length on, as JSON, a result is referred to."""
RESULT_IN = "result_in"
"""In place of an event's or a step's ``result``: the id of the message that holds it."""
RESULT_BYTES = "result_bytes"
"""Beside it in an event: how long the result is as JSON, for pages."""
GONE = "[the message with this result was removed]"


def refer_to_messages(
    payloads: Sequence[Payload], ended: Sequence[StepEnded], history: Sequence[HistoryItem]
) -> tuple[Sequence[Payload], Sequence[StepEnded]]:
    """Return events and steps as they are written beside ``history``: without the long results that it holds."""
    held = {item.data.get("call_id"): (item, size) for item in history if (size := _size(item)) >= LONG_BYTES}
    if not held:
        return payloads, ended
    written: list[Payload] = []
    referring: dict[str, HistoryItem] = {}
    for payload in payloads:
        item, size = held.get(payload.call_id, (None, 0)) if isinstance(payload, ToolResultPayload) else (None, 0)
        if isinstance(payload, ToolResultPayload) and item is not None and payload.result is item.data["result"]:
            referring[payload.step_id] = item
            extra = {**payload.extra, RESULT_IN: item.id, RESULT_BYTES: size}
            payload = replace(payload, result=None, extra=extra)
        written.append(payload)
    return written, [_ended(step, referring.get(step.id)) for step in ended]


def _ended(step: StepEnded, item: HistoryItem | None) -> StepEnded:
    if item is None or step.result is not item.data["result"]:
        return step
    return replace(step, result={RESULT_IN: item.id})


def _size(item: HistoryItem) -> int:
    """Return the bytes of the message's result as JSON; 0 where it has none."""
    result = item.data.get("result") if item.role == "tool" else None
    return 0 if result is None else len(orjson.dumps(result))


def with_references(rows: list[Any]) -> tuple[list[Any], dict[int, ToolResultPayload]]:
    """Return as many rows of events as fit into a page with the results they refer to, one at least.

    Beside them those payloads that refer to one, by their number, each still without it.
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
    """Return a run's payloads with the results they refer to."""
    if not referring:
        return []
    ids = [str(payload.extra[RESULT_IN]) for payload in referring]
    rows = connection.execute(_HOLDERS, {"its_run": run_id, "its_ids": ids}).all()
    found = {row.id: orjson.loads(row.data_json).get("result") for row in rows}
    return [_with_result(payload, found) for payload in referring]


_HOLDERS = select(messages.c.id, messages.c.data_json).where(
    messages.c.run_id == bindparam("its_run"), messages.c.id.in_(bindparam("its_ids", expanding=True))
)


def _with_result(payload: ToolResultPayload, found: Mapping[str, Any]) -> Payload:
    extra = {name: value for name, value in payload.extra.items() if name not in (RESULT_IN, RESULT_BYTES)}
    return replace(payload, result=found.get(str(payload.extra[RESULT_IN]), GONE), extra=extra)
