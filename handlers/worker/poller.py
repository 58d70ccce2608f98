"""The poller: takes queued runs from SQL whose wake-up was lost, or all where there is no broker."""

from __future__ import annotations

import asyncio
import logging
import random

from agents.execution import execute
from agents.process import Process
from bus.messages.run_agent import RunAgentMessage
from bus.queues import served_queues
from config.errors import CallboardError
from config.tracing import traced
from handlers.worker.run_agent_handler import RunAgentHandler
from handlers.worker.slots import SlotPool

log = logging.getLogger(__name__)

HURRY_S = 1.0
"""Seconds between two polls while the relay or Redis fails."""
LOOKED_AT = 500


class Poller:
    """One per worker process, on its event loop.

    A run is taken when two polls have seen it, so that a wake-up in flight arrives first. A run whose wake-up found no
    free slot is taken as soon as there is one.
    """

    def __init__(self, process: Process, slots: SlotPool) -> None:
        self._process = process
        self._slots = slots
        self._journal = process.journal
        self._queues = served_queues(process.settings)
        self._handler = RunAgentHandler(process, self._queues)
        self._seen: frozenset[str] = frozenset()
        self._wanted = asyncio.Event()
        self._wanted.set()  # the first look is at once, so that a new worker takes at its second what has no wake-up
        self._working: set[asyncio.Task[None]] = set()
        slots.on_deferred = lambda: self._journal.loop.call_soon(self._wanted.set)

    async def run(self) -> None:
        """Poll for as long as the process lives."""
        while not self._slots.is_closed:
            try:
                async with asyncio.timeout(self._pause_s()):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            self._wanted.clear()
            try:
                await self.look()
            except CallboardError as error:
                log.warning("looking for queued runs failed: %s", error)
            except Exception:  # the task must survive any error
                log.exception("looking for queued runs failed")

    async def look(self) -> int:
        """Take the claimable runs for which there are slots, and return how many were begun."""
        self._journal.live.hot_log.announce(await self._journal.loop.read(self._journal.live.database_id))
        free = self._slots.free
        if free <= 0:
            return 0
        deferred = self._slots.deferred()
        rows = await self._journal.loop.read(self._journal.owner.unowned.claimable, LOOKED_AT, self._queues)
        waiting = [row for row in rows if row.id in deferred or row.id in self._seen]
        reserved_for = self._slots.reserved_for
        if reserved_for is not None:
            waiting = [row for row in rows if row.id == reserved_for]
            if not waiting:  # another process has taken it
                self._slots.leave(reserved_for)
        self._seen = frozenset(row.id for row in rows)
        for row in waiting[:free]:
            task = asyncio.create_task(self._work(RunAgentMessage.of_run(row)), name=f"polled {row.id}")
            self._working.add(task)
            task.add_done_callback(self._working.discard)
        self._slots.defer(deferred & {row.id for row in waiting[free:]})
        return len(waiting[:free])

    def _pause_s(self) -> float:
        is_notified = not (self._journal.live.relay.is_failing or self._journal.live.hot_log.is_down)
        every_s = self._journal.settings.reap_s if is_notified else min(HURRY_S, self._journal.settings.reap_s)
        return every_s * random.uniform(0.8, 1.2)  # no secret

    async def _work(self, message: RunAgentMessage) -> None:
        ids = message.trace_id, message.correlation_id, message.run_id
        with traced(*ids), self._slots.slot_for(message.run_id) as has_slot:
            if not has_slot:
                return
            claimed = await self._journal.loop.wait(self._handler.take, message)
            if claimed is not None:
                log.info("took a run that no message brought run_id=%s", message.run_id)
                await execute(self._journal, claimed)
