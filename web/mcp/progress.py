"""A run's events as progress notifications: what it does, and the end of the answer so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from bus.journal import Line
from config.visible import visible

EVERY_S = 0.2
"""Seconds between two notifications about text, which comes many times a second."""
MAX_CHARS = 200


class ProgressMessages:
    """Turns a run's events into messages; one per request.

    The first one names the run, so that a client which loses its connection can find it again.
    """

    def __init__(self, run_id: str, now_s: Callable[[], float] = time.monotonic) -> None:
        self._run_id = run_id
        self._is_first = True
        self._now_s = now_s
        self._said_s = float("-inf")
        self._text = ""

    def message(self, line: Line) -> str | None:
        """Return what to notify the client of; None where the event says nothing new."""
        found = self._of(line)
        if found is None or not self._is_first:
            return found
        self._is_first = False
        return f"{self._run_id}: {found}"

    def _of(self, line: Line) -> str | None:
        if line.type == "response":
            return self._of_text(orjson.loads(line.data).get("content", ""))
        found = _of_event(line.type, orjson.loads(line.data)) if line.type in _SHOWN else None
        return visible(found[:MAX_CHARS]) if found else None

    def _of_text(self, piece: str) -> str | None:
        self._text = (self._text + piece)[-MAX_CHARS:]
        if self._now_s() - self._said_s < EVERY_S:
            return None
        self._said_s = self._now_s()
        return visible(self._text)


_SHOWN = frozenset({"status", "tool", "tool_progress", "tool_result", "error"})


def _of_event(kind: str, event: Mapping[str, Any]) -> str | None:
    match kind:
        case "status":
            reason = event.get("reason")
            return f"{event['status']}: {reason}" if reason else str(event["status"])
        case "tool":
            return f"calls {event['name']}" if "arguments" in event else None
        case "tool_progress":
            return f"{event['name']}: {event['message']}" if "message" in event else None
        case "tool_result":
            return f"{event['name']}: {event['outcome']}"
    return f"{event['code']}: {event['message']}"
