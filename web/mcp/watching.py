"""One request that waits for a run: its events become progress, until the run ends or asks a person."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import orjson

from agents.handle import RunHandle
from bus.journal.errors import RunUnknown
from bus.journal.readers import Line
from config.text.visible import visible
from web.mcp.service import Acting, Context, Service

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
        sentence = self._of(line)
        if sentence is None or not self._is_first:
            return sentence
        self._is_first = False
        return f"{self._run_id}: {sentence}"

    def _of(self, line: Line) -> str | None:
        if line.type == "response":
            return self._of_text(orjson.loads(line.data).get("content", ""))
        sentence = _of_event(line.type, orjson.loads(line.data)) if line.type in _SHOWN else None
        return visible(sentence[:MAX_CHARS]) if sentence else None

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


class Watched:
    """A run that a request waits for. To be used on the loop."""

    def __init__(self, service: Service, context: Context, caller: Acting, handle: RunHandle, cursor: int = 0) -> None:
        self._service = service
        self._context = context
        self._caller = caller
        self._progress = ProgressMessages(handle.run_id)
        self.handle = handle
        self.cursor = cursor
        """The number of the last event that was read."""

    async def questions(self) -> list[dict[str, Any]]:
        """Return the run's open questions."""
        return await self._service.act(
            self._caller, self._service.journal.readers.runs.questions, self._caller.principal, self.handle.run_id
        )

    async def next_questions(self, limit_s: float, *, stops: bool = True) -> list[dict[str, Any]]:
        """Return the questions that the run asks next; none where it has ended, or asks none for ``limit_s``.

        Unless it ``stops``, questions are no reason to return: another client may answer them.
        """
        with suppress(TimeoutError, RunUnknown):  # removed meanwhile: the result says so
            async with asyncio.timeout(limit_s):
                return await self._follow(stops)
        return []

    async def _follow(self, stops: bool) -> list[dict[str, Any]]:
        journal, handle = self._service.journal, self.handle
        following = journal.readers.follow(self._caller.principal.tenant, handle.run_id, handle.thread_id, self.cursor)
        async with _closed(following) as batches:
            async for batch in batches:
                for line in batch:
                    self.cursor = line.seq
                    if line.is_end:
                        return []
                    if stops and line.is_waiting and (questions := await self.questions()):
                        return questions
                    await self._report(line)
        return []

    async def _report(self, line: Line) -> None:
        message = self._progress.message(line)
        if message is not None:
            await self._context.session.report_progress(line.seq, message=message)


@asynccontextmanager
async def _closed(
    batches: AsyncGenerator[list[Line], None],
) -> AsyncIterator[AsyncGenerator[list[Line], None]]:
    """Close the reader at the end, also when the request is cancelled: AnyIO would cancel each wait of the closing."""
    try:
        yield batches
    finally:
        with anyio.CancelScope(shield=True):
            await batches.aclose()
