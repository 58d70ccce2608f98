"""Writes a tool's long result once: event and step refer to the message that has it (``results`` reads them)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import orjson

from bus.journal.log.results import RESULT_BYTES, RESULT_IN
from bus.journal.steps import StepEnded
from bus.journal.threads import HistoryItem
from bus.payloads import Payload, ToolResultPayload

LONG_BYTES = 1024
"""From this many bytes on, as JSON, a result is written as a reference."""


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
