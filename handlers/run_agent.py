"""The handler of RunAgentMessage: claims the run with its agent loaded, and executes it."""

from __future__ import annotations

from agents.execution import execute
from agents.process import current_process
from bus.celery_app import handles
from bus.messages.run_agent import RunAgentMessage
from bus.queues import served_queues
from config.tracing import traced
from handlers.worker.inline import InlineRun
from handlers.worker.run_agent_handler import RunAgentHandler
from handlers.worker.slots import slot_pool


async def handle(message: RunAgentMessage) -> None:
    """Handle a message of the inline route; returns when the run has ended, or when the process shuts down."""
    process = current_process()
    with traced(message.trace_id, message.correlation_id, message.run_id):
        await InlineRun(process, message, RunAgentHandler(process).claim).follow()


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
