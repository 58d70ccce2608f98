"""RunAgentMessage: claim the run, switch to its principal, load the agent, let it work, write down the end."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from agents.agent import Agent
from agents.context import RunContext
from agents.models.lite import litellm_ready
from agents.process import Process, process
from agents.tools.catalogue import tools_of
from bus.celery_app import app
from bus.journal.hotlog import begin_writing, end_writing
from bus.journal.leases import Lease
from bus.journal.threads import HistoryItem
from bus.journal.writer import Commit
from bus.messages import MessageInvalid, RunAgentMessage
from bus.payloads import EndPayload, ErrorPayload
from config.clock import epoch_ms
from config.definitions import AgentDefinition
from config.errors import CallboardError, Permanent, PluginUnknown, StaleOwner
from config.ids import new_id
from observers.base import AgentObserver
from observers.discovery import observers_for

log = logging.getLogger(__name__)


class RunFailed(Permanent):
    """Something nobody foresaw; its details are in the worker's log."""

    code = "internal"
    status = 500


class RunAgentHandler:
    """Handles one message at a time a run; many runs at once.

    Delivered twice, late, or for a run that ended: the claim finds nothing to do, and it returns.
    """

    def __init__(self, here: Process) -> None:
        self._here = here
        self._journal = here.journal

    async def handle(self, message: RunAgentMessage) -> None:
        """Work the run off if it can be had; never raises for what happens inside the run."""
        await litellm_ready(self._journal.loop)
        lease = await self._journal.claim(message.run_id)
        if lease is None:
            return
        try:
            await self._work(lease)
        except StaleOwner:
            log.info("run left to its new owner run_id=%s", lease.run_id)
        finally:
            self._journal.keeper.let_go(lease.run_id, lease.fence)
            await end_writing(lease.run_id, lease.fence)
            self._journal.hot_log.nudge(self._journal.keys.board, lease.run_id)

    async def _work(self, lease: Lease) -> None:
        observers, missing = self._observers(lease)
        context = await RunContext.load(self._journal, lease, observers)
        begin_writing(self._journal.hot_log, lease.run_id, lease.fence, context.writer)
        for payload in lease.first_events:
            context.tell(payload)
        self._journal.hot_log.nudge(self._journal.keys.board, lease.run_id)
        try:
            if missing is not None:
                raise missing
            agent = await self._agent(context)
        except CallboardError as wrong:
            await self._fail_unbegun(context, wrong)
            return
        await self._run(agent, context)

    def _observers(self, lease: Lease) -> tuple[tuple[AgentObserver, ...], CallboardError | None]:
        """Return the run's observers; where one is missing, those that are there, and what is wrong."""
        guests = self._here.guests.pop(lease.run_id, ())
        settings = self._journal.settings
        try:
            return (*observers_for(lease.observers, settings), *guests), None
        except PluginUnknown as wrong:
            shipped = [name for name in lease.observers if name in ("sse", "logger") and settings.builtins]
            return (*observers_for(shipped, settings), *guests), wrong

    async def _agent(self, context: RunContext) -> Agent:
        """Return the agent as it is defined now, its tools imported."""
        settings = self._journal.settings

        def load() -> tuple[AgentDefinition, Any]:
            definition = self._here.registry.get(context.lease.agent_id)
            return definition, tools_of(definition, settings)

        definition, tools = await self._journal.loop.read(load)
        return Agent(definition, tools, context)

    async def _run(self, agent: Agent, context: RunContext) -> None:
        work = asyncio.create_task(agent.run(), name=f"run {context.lease.run_id}")
        context.halt = context.writer.on_lost = lambda: _cancel(work)
        await self._journal.keeper.keep(context.writer, context.stop)
        try:
            await work
        except asyncio.CancelledError:
            if not context.is_stopped or context.writer.is_stale:
                raise
            await agent.finish_stopped()
        except StaleOwner:
            raise
        except CallboardError as wrong:
            await agent.finish_failed(wrong)
        except Exception:
            log.exception("run failed unexpectedly run_id=%s", context.lease.run_id)
            await agent.finish_failed(
                RunFailed("something went wrong that nobody foresaw; the worker's log has the details.")
            )

    async def _fail_unbegun(self, context: RunContext, wrong: CallboardError) -> None:
        """End a run whose agent could not be loaded."""
        error = ErrorPayload(code=wrong.code, message=str(wrong), retryable=False)
        end = EndPayload(
            status="failed", reason=wrong.code, steps=0, duration_ms=epoch_ms() - context.lease.created_ms
        )  # fmt: skip
        note = HistoryItem(id=new_id("msg"), role="error", data={"content": str(wrong), "code": wrong.code})
        await context.save(Commit(events=[error, end], history=[note], error_code=wrong.code))


def _cancel(work: asyncio.Task[None]) -> None:
    work.cancel()


# --- the two ways in ------------------------------------------------------------------------------


async def handle(message: RunAgentMessage) -> None:
    """Handle a message that was sent on the synchronous route."""
    await RunAgentHandler(process()).handle(message)


@app.task(name=RunAgentMessage.name, ignore_result=True)  # type: ignore[untyped-decorator]  # celery has no types
def run_agent(wire: object = None, *_more: object, **_extra: object) -> None:
    """Handle a message that came through the queue; garbage is counted and dropped."""
    try:
        message = RunAgentMessage.from_wire(wire)
    except MessageInvalid as wrong:
        log.warning("dropped a message: %s", wrong)
        return
    here = process()
    here.journal.loop.run(RunAgentHandler(here).handle(message))
