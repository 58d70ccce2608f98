"""One request that waits for a run: its events become progress, until the run ends or asks a person."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio

from agents.handle import RunHandle
from bus.journal import Line, RunUnknown
from web.mcp.progress import ProgressMessages
from web.mcp.service import Acting, Context, Service


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
            self._caller, self._service.journal.runs.questions, self._caller.principal, self.handle.run_id
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
        following = journal.follow(self._caller.principal.tenant, handle.run_id, handle.thread_id, self.cursor)
        async with _closed(following) as batches:
            async for batch in batches:
                for line in batch:
                    self.cursor = line.seq
                    if line.is_end:
                        return []
                    if stops and line.is_waiting and (asked := await self.questions()):
                        return asked
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
