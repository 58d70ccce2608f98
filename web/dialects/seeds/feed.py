"""A run's log for one viewer, with its events translated to the dialect of the first orchestrator design."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import orjson

from bus.journal.clients import STOPPED
from bus.journal.readers import Line
from config.errors import CallboardError
from web.feeds.backlog import Backlog
from web.feeds.viewers import Stream, Viewer

if TYPE_CHECKING:
    from bus.journal import Journal

log = logging.getLogger(__name__)


class SeedFeed(Stream):
    """Streams a run from its first event to its end, as fast as the viewer reads: its task waits for buffer space."""

    def __init__(
        self,
        journal: Journal,
        backlog: Backlog,
        tenant: str,
        run_id: str,
        thread_id: str,
        correlation_id: str | None,
    ) -> None:
        self._journal = journal
        self._backlog = backlog
        self._tenant = tenant
        self._run_id = run_id
        self._thread_id = thread_id
        self._correlation_id = correlation_id
        self._error: Mapping[str, Any] = {}
        """The last error, for the end event."""

    def attach(self, viewer: Viewer) -> None:
        viewer.task = asyncio.get_running_loop().create_task(self._pour(viewer))

    async def _pour(self, viewer: Viewer) -> None:
        try:
            following = self._journal.readers.follow(self._tenant, self._run_id, self._thread_id, 0)
            async with aclosing(following) as batches:
                async for batch in batches:
                    await self._write(viewer, b"".join(self._translated(line) for line in batch))
            viewer.finish()
        except CallboardError as error:  # such as a run that was removed while it was watched
            log.info("viewer dropped: %s", error, extra=viewer.log_fields | {"run_id": self._run_id})
            viewer.drop()
        except Exception:
            log.exception("viewer dropped", extra=viewer.log_fields | {"run_id": self._run_id})
            viewer.drop()

    async def _write(self, viewer: Viewer, data: bytes) -> None:
        viewer.write(data)
        if viewer.stuck_since:
            self._backlog.hold(viewer, data, len(data))
            await viewer.room()
            self._backlog.release(viewer)

    def _translated(self, line: Line) -> bytes:
        """Return an event's frames in the dialect; empty if the dialect has no such event."""
        if line.type == "response":
            return _frame({"type": "thinking", "content": orjson.loads(line.data).get("content", "")})
        if line.type not in ("tool", "tool_result", "error", "end"):
            return b""
        event = orjson.loads(line.data)
        if line.type == "error":
            self._error = event
        elif line.type == "end":
            return self._ending(event)
        elif line.type == "tool_result":
            return _frame({"type": "tool_result", "name": event["name"], "result": as_text(event.get("result"))})
        elif "arguments" in event:  # not the early event with the name only
            return _frame({"type": "tool_start", "name": event["name"], "args": event["arguments"]})
        return b""

    def _ending(self, event: Mapping[str, Any]) -> bytes:
        usage = event.get("usage", {})
        done = {"type": "done", "usage": {"tokens": usage.get("input_tokens", 0) + usage.get("output_tokens", 0)}}
        if self._correlation_id is not None:
            done["correlation_id"] = self._correlation_id
        if event["status"] == "succeeded":
            return _frame(done)
        error = self._error if event["status"] == "failed" else {}
        code, message = error.get("code") or event["status"], error.get("message") or reason_of(event)
        return _frame({"type": "error", "code": code, "message": message}) + _frame(done)


def reason_of(event: Mapping[str, Any]) -> str:
    """Return why a run ended, as its end event says it."""
    reason = event.get("reason")
    return STOPPED.note if reason == STOPPED.reason else str(reason or f"the run {event['status']}.")


def as_text(value: Any) -> str:
    """Return an output or a result as text; a value other than text as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else orjson.dumps(value).decode()


def _frame(event: Mapping[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (str(event["type"]).encode(), orjson.dumps(event))
