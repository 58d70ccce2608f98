"""A viewer of a run that drops and comes back with the last number it saw, and pieces the text together."""

from __future__ import annotations

import asyncio

import orjson

from bus.journal.acceptance.accept import Accepted
from bus.journal.live.hotlog import HotLog
from bus.journal.live.reader import Reader
from bus.journal.log.line import Line
from bus.journal.queries.run_record import RunRecord
from bus.journal.states.lease import Lease
from cli.crashlab.invariants import log_breaches, view_breaches
from tests.bus.journal_harness import JournalHarness


class Viewer:
    """Everything is called on the loop."""

    def __init__(self, harness: JournalHarness, accepted: Accepted | Lease, hot_log: HotLog | None = None) -> None:
        self.run_id = accepted.run_id
        self._harness = harness
        self._accepted = accepted
        self._hot_log = hot_log or harness.hot_log
        self.got: list[Line] = []
        self.task: asyncio.Task[None] | None = None

    @property
    def has_end(self) -> bool:
        return bool(self.got) and self.got[-1].is_end

    def connect(self) -> None:
        if self.task is None and not self.has_end:
            self.task = asyncio.create_task(self._follow())

    async def drop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait([self.task])
            self.task = None

    async def _follow(self) -> None:
        harness, accepted = self._harness, self._accepted
        cursor = self.got[-1].seq if self.got else 0
        reader = Reader(
            "default", accepted.run_id, accepted.thread_id, cursor, harness.database, self._hot_log, harness.loop
        )
        async for batch in reader.batches():
            self.got += batch

    def breaches(self, record: RunRecord) -> list[str]:
        """Return what is wrong with what this viewer saw of a run that has ended."""
        return [*log_breaches(self.got), *view_breaches(record, [orjson.loads(line.data) for line in self.got])]
