"""The handler of RunAgentMessage: claims the run with its agent loaded, and executes it."""

from __future__ import annotations

import logging
from typing import Any

from agents.execution import execute
from agents.process import current_process
from bus.celery_app import app
from bus.messages import MessageInvalid, RunAgentMessage
from bus.queues import served_queues
from config.tracing import traced
from handlers.worker.inline import InlineRun
from handlers.worker.run_agent_handler import RunAgentHandler
from handlers.worker.slots import slot_pool

log = logging.getLogger(__name__)


async def handle(message: RunAgentMessage) -> None:
    """Handle a message of the inline route; returns when the run has ended, or when the process shuts down."""
    process = current_process()
    with traced(message.trace_id, message.correlation_id, message.run_id):
        await InlineRun(process, message, RunAgentHandler(process).claim).follow()


@app.task(name=RunAgentMessage.name, ignore_result=True, bind=True)  # type: ignore[untyped-decorator]  # celery has no types
def run_agent(task: Any, wire: object = None, *_more: object, **_extra: object) -> None:
    """Handle a message from the broker; an invalid one is logged and dropped. Delivered twice, nothing happens."""
    try:
        message = RunAgentMessage.from_wire(wire).with_headers(task.request.headers or {})
    except MessageInvalid as error:
        log.warning("dropped a message: %s", error)
        return
    with traced(message.trace_id, message.correlation_id, message.run_id):
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
