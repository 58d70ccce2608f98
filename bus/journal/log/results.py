"""A tool's long result is written once: the thread's message has it, and the run's event and step refer to it.

The message is kept longest: events may expire and runs may be removed while the thread keeps its messages. All three
are written in one transaction. A short result is written in each of them, since a reference would be as long. Rows of
earlier releases have the result themselves and are read as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeGuard

import orjson
from sqlalchemy import Connection, bindparam, select

from bus.journal.paging import PAGE_BYTES
from bus.journal.records.steps import RESULT_IN, StepEnded
from bus.journal.records.threads import HistoryItem
from bus.payloads import Payload, ToolResultPayload, decode
from config.database.tables import messages

RESULT_BYTES = "result_bytes"
"""The field beside it in an event: the bytes of the result as JSON, for the size of pages."""
LONG_BYTES = 1024
"""From this many bytes on, as JSON, a result is written as a reference."""
GONE = "[the message with this result was removed]"


# --- writing


def refer_to_messages(
    payloads: Sequence[Payload], ended: Sequence[StepEnded], history: Sequence[HistoryItem]
) -> tuple[Sequence[Payload], Sequence[StepEnded]]:
    """Return events and steps with references in place of the long results that ``history`` has."""
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
    """Return the bytes of the message's result as JSON; 0 where there is none."""
    result = item.data.get("result") if item.role == "tool" else None
    return 0 if result is None else len(orjson.dumps(result))


# --- reading


def with_references(rows: list[Any]) -> tuple[list[Any], dict[int, ToolResultPayload]]:
    """Return as many rows of events as fit into a page together with the results they refer to, at least one.

    The second value has the payloads with a reference, by their number, still without the result.
    """
    referring: dict[int, ToolResultPayload] = {}
    size = 0
    for index, row in enumerate(rows):
        size += len(row.data_json)
        if row.type == "tool_result" and RESULT_IN in row.data_json:
            payload = decode(row.data_json)
            if refers(payload):
                size += int(payload.extra.get(RESULT_BYTES, 0))
                referring[row.seq] = payload
        if size >= PAGE_BYTES:
            return rows[: index + 1], referring
    return rows, referring


def with_results(connection: Connection, run_id: str, payloads: Collection[Payload]) -> list[Payload]:
    """Return a run's payloads, with the results in place of references."""
    return with_results_of(connection, {run_id}, payloads)


def with_results_of(connection: Connection, run_ids: Collection[str], payloads: Collection[Payload]) -> list[Payload]:
    """Return payloads of several runs, with the results in place of references."""
    results = held_results(connection, run_ids, [payload.extra[RESULT_IN] for payload in payloads if refers(payload)])
    return [_with_result(payload, results) if refers(payload) else payload for payload in payloads]


def held_results(connection: Connection, run_ids: Collection[str], message_ids: Sequence[str]) -> Mapping[str, Any]:
    """Return the results that these messages of the runs have, by the messages' ids; removed ones are left out."""
    rows = connection.execute(_HOLDERS, {"runs_": [*run_ids], "ids_": message_ids}).all() if message_ids else ()
    return {row.id: orjson.loads(row.data_json).get("result") for row in rows}


def refers(payload: Payload) -> TypeGuard[ToolResultPayload]:
    """Return whether the event has a reference in place of its result."""
    return isinstance(payload, ToolResultPayload) and RESULT_IN in payload.extra


_HOLDERS = select(messages.c.id, messages.c.data_json).where(
    messages.c.run_id.in_(bindparam("runs_", expanding=True)), messages.c.id.in_(bindparam("ids_", expanding=True))
)


def _with_result(payload: ToolResultPayload, results: Mapping[str, Any]) -> Payload:
    extra = {name: value for name, value in payload.extra.items() if name not in (RESULT_IN, RESULT_BYTES)}
    return replace(payload, result=results.get(str(payload.extra[RESULT_IN]), GONE), extra=extra)
