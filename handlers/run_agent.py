"""The handler of RunAgentMessage: claims the run with its agent loaded, and executes it.

The process that accepted a run inline works on it until it ends, since there may be no worker.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

from agents.execution import ClaimedRun, execute
from agents.memory.compaction import compactions
from agents.process import Process, current_process
from bus.celery_app import handles
from bus.messages.run_agent import RunAgentMessage
from bus.payloads import TERMINAL
from bus.queues import served_queues
from config.errors import Retryable
from config.tracing import traced
from handlers.worker.run_agent_handler import RunAgentHandler, summarise_later
from handlers.worker.slots import slot_pool

log = logging.getLogger(__name__)

TURN_S = 0.3
"""Seconds between two tries to claim a queued run; an earlier run of its thread may be open."""
WAITING_S = 1.0
"""Seconds between two reads of the status of a run that waits for a person, or that another process works on."""
PAUSE_S = 0.5
"""Seconds to wait after a database error."""


class InlineRun:
    """A run that this process executes itself.

    If the run waits for a person, for a time or for others, or loses its owner, this process resumes it too, unless a
    worker claims it first: a program that only waits for its run has no reaper.
    """

    def __init__(
        self, process: Process, message: RunAgentMessage, claim: Callable[[RunAgentMessage], ClaimedRun | None]
    ) -> None:
        self._process = process
        self._journal = process.journal
        self._message = message
        self._claim = claim
        self._deferred_s = 0.0  # when polling of the run was last deferred
        self._summary: asyncio.Task[None] | None = None
        self._children: dict[str, asyncio.Task[None]] = {}
        self._news = asyncio.Event()  # set where the run's status may have changed

    async def follow(self) -> None:
        """Return when the run has ended, or when the process shuts down."""
        status: str | None = "queued"
        on_queued = self._journal.live.on_queued
        on_queued[self._message.run_id] = self._news.set
        try:
            while True:
                before, status = status, await self._step(status)
                if status is None or status in TERMINAL:
                    return
                if status == before:
                    await self._pause(TURN_S if status == "queued" else WAITING_S)
                if self._journal.owner.lease_manager.is_leaving:
                    return
        finally:
            self._process.local_observers.pop(self._message.run_id, None)
            on_queued.pop(self._message.run_id, None)
            await asyncio.gather(*self._children.values())

    async def _pause(self, seconds: float) -> None:
        """Return after so many seconds, or when this process has queued the run, or one of its children has ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
        self._news.clear()

    async def summarised(self) -> None:
        """Return when the summary of the run's thread is made, where this process has begun one."""
        if self._summary is not None:
            await self._summary

    async def _step(self, status: str | None) -> str | None:
        """Do what a run in this status needs, and return its new status, or None where it is not known."""
        try:
            is_refused = False
            if status == "queued":
                claimed = await self._journal.loop.wait(self._claim, self._message)
                is_refused = claimed is None
                if claimed is not None:
                    await execute(self._journal, claimed)
                    if claimed.definition is not None:
                        self._summary = compactions().start(self._journal, claimed.context, claimed.definition)
            elif status == "waiting":
                from handlers.worker.task_watcher import TaskWatcher  # with the clients of Celery applications

                await TaskWatcher(self._process).look(self._message.run_id)
                await self._journal.loop.write(self._journal.owner.reaper.fire, self._message.run_id)
                await self._follow_children()
            elif status == "running":
                await self._requeue_if_lost()
            new_status = await self.read_status()
            if is_refused and new_status == "queued":
                await self._defer_polling()
            return new_status
        except Retryable as error:
            log.warning("could not read or claim a run yet run_id=%s: %s", self._message.run_id, error)
            await asyncio.sleep(PAUSE_S)
            return status

    async def _follow_children(self) -> None:
        """Begin to execute the children that the run waits for, unless workers do; it may wait for more than these."""
        children = await self._journal.loop.read(self._journal.readers.runs.messages_of_children, self._message.run_id)
        for message in children:
            if message.run_id not in self._children or self._children[message.run_id].done():
                child = asyncio.create_task(InlineRun(self._process, message, self._claim).follow())
                child.add_done_callback(lambda _: self._news.set())
                self._children[message.run_id] = child

    async def _defer_polling(self) -> None:
        """Keep pollers from the run while it waits for its thread; renewed at the interval of heartbeats."""
        if time.monotonic() - self._deferred_s >= self._journal.settings.beat_s:
            self._deferred_s = time.monotonic()
            await self._journal.loop.write(self._journal.owner.unowned.defer_polling, self._message.run_id)

    async def _requeue_if_lost(self) -> None:
        """Requeue a run that lost its owner, as a reaper does."""
        journal, run_id = self._journal, self._message.run_id
        if journal.owner.lease_manager.tracks(run_id) or not await journal.loop.read(
            journal.owner.unowned.has_lost_owner, run_id
        ):
            return
        written = await journal.loop.write(journal.owner.reaper.reap, run_id)
        if written is not None:
            journal.live.publish(written)

    async def read_status(self) -> str | None:
        """Return the run's status from SQL."""
        return await self._journal.loop.read(self._journal.readers.runs.status, self._message.run_id)


async def handle(message: RunAgentMessage) -> None:
    """Handle a message of the inline route; returns when the run has ended, or when the process shuts down.

    The run's caller has its end before: the summary of a long thread, which is made then, delays this return alone.
    """
    process = current_process()
    with traced(message.trace_id, message.correlation_id, message.run_id):
        run = InlineRun(process, message, RunAgentHandler(process).claim)
        await run.follow()
        await run.summarised()


@handles(RunAgentMessage)
def run_agent(message: RunAgentMessage) -> None:
    """Handle a message from the broker. Delivered twice, nothing happens: SQL has one owner for the run."""
    work_on(message)


def work_on(message: RunAgentMessage) -> None:
    """Claim and execute a message's run, where there is a slot for it; returns when that is over."""
    process = current_process()
    with slot_pool().slot_for(message.run_id) as has_slot:
        if not has_slot:
            return  # the run stays queued; the next free slot of any worker takes it
        # The task's thread claims the run, since it has nothing else to do.
        claimed = RunAgentHandler(process, served_queues(process.settings)).take(message)
        if claimed is not None:
            process.journal.loop.run(execute(process.journal, claimed))
    summarise_later(process, claimed)  # the slot is free again
