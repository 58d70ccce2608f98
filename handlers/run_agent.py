"""The handler of RunAgentMessage: claims the run with its agent loaded, and executes it."""

from __future__ import annotations

import logging
import time

from agents.claimed_run import ClaimedRun
from agents.execution import execute
from agents.process import Process, current_process
from bus.celery_app import app
from bus.messages import MessageInvalid, RunAgentMessage
from bus.queues import ServedQueues, served_queues
from config.errors import CallboardError, Retryable
from handlers.worker.claims import Claims
from handlers.worker.inline import InlineRun
from handlers.worker.slots import slot_pool

log = logging.getLogger(__name__)

PATIENCE_S = 60.0
"""Seconds for which a claim is retried while the database is locked or unreachable."""
PAUSE_S = 0.5
"""Seconds between two retries."""


class RunAgentHandler:
    """Handles messages of many runs at once; a run is worked on by one owner at a time.

    If a message is delivered twice, late, or for a run that ended, the claim returns None and the handler does nothing.
    """

    def __init__(self, process: Process, queues: ServedQueues | None = None) -> None:
        """With ``queues``, runs of other queues are left to the workers that serve those."""
        self._process = process
        self._claims = Claims(process, queues)

    def take(self, message: RunAgentMessage) -> ClaimedRun | None:
        """Claim the run and return it with its agent; None when there is nothing to do. Blocks a plain thread.

        The claim is retried while the database is locked or unreachable. If it fails, that is logged and the run stays
        queued: any worker's poller finds it.
        """
        patience_ends_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self._claims.claim(message)
            except CallboardError as error:
                if not isinstance(error, Retryable) or time.monotonic() >= patience_ends_s:
                    log.warning("could not take a queued run run_id=%s: %s", message.run_id, error)
                    return None
                log.warning("could not claim yet run_id=%s: %s", message.run_id, error)
            time.sleep(PAUSE_S)  # on a thread of its own

    async def work_off(self, claimed: ClaimedRun) -> None:
        """Execute the run until it ends, waits or is released; errors of the run itself are recorded, not raised."""
        await execute(self._process.journal, claimed)

    async def work_inline(self, message: RunAgentMessage) -> bool:
        """Claim and execute the run in this process; return False where it cannot be claimed now.

        Raises:
            Retryable: the database is locked or unreachable; the run stays queued.
        """
        claimed = await self._process.journal.loop.wait(self._claims.claim, message)
        if claimed is not None:
            await self.work_off(claimed)
        return claimed is not None


async def handle(message: RunAgentMessage) -> None:
    """Handle a message of the inline route; returns when the run has ended, or when the process shuts down."""
    process = current_process()
    await InlineRun(process, message, RunAgentHandler(process).work_inline).follow()


@app.task(name=RunAgentMessage.name, ignore_result=True)  # type: ignore[untyped-decorator]  # celery has no types
def run_agent(wire: object = None, *_more: object, **_extra: object) -> None:
    """Handle a message from the broker; an invalid one is logged and dropped. Delivered twice, nothing happens."""
    try:
        message = RunAgentMessage.from_wire(wire)
    except MessageInvalid as error:
        log.warning("dropped a message: %s", error)
        return
    process = current_process()
    with slot_pool().slot_for(message.run_id) as has_slot:
        if not has_slot:
            return  # the run stays queued; the next free slot of any worker takes it
        handler = RunAgentHandler(process, served_queues(process.settings))
        claimed = handler.take(message)  # on this thread, which has nothing else to do
        if claimed is not None:
            process.journal.loop.run(handler.work_off(claimed))
