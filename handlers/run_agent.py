"""RunAgentMessage: claim the run, switch to its principal, load the agent, let it work, write down the end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection

from agents.agent import Agent
from agents.context import RunContext
from agents.models.lite import litellm_module
from agents.process import Process, process
from agents.tools.catalogue import tools_of
from agents.tools.tool import Tool
from bus.celery_app import app
from bus.journal.hotlog import begin_writing, end_writing
from bus.journal.leases import Lease
from bus.journal.runs import is_queued
from bus.journal.steps import start_steps
from bus.journal.threads import HistoryItem
from bus.journal.writer import Commit
from bus.messages import MessageInvalid, RunAgentMessage
from bus.payloads import EndPayload, ErrorPayload
from config.clock import epoch_ms
from config.definitions import AgentDefinition
from config.errors import CallboardError, Permanent, PluginUnknown, Retryable, StaleOwner
from config.ids import new_id
from observers.base import AgentObserver
from observers.discovery import observers_for

log = logging.getLogger(__name__)


TURN_S = 0.3
"""How often a run that is worked off here looks whether its thread is free."""
PATIENCE_S = 60.0
"""How long a claim is tried while the database is locked or away."""
PAUSE_S = 0.5


class RunFailed(Permanent):
    """Something nobody foresaw; its details are in the worker's log."""

    code = "internal"
    status = 500


@dataclass(frozen=True, slots=True)
class Begun:
    """A claimed run and who works on it; or why nobody can."""

    context: RunContext
    agent: Agent | None
    wrong: CallboardError | None = None


Loaded = tuple[AgentDefinition, Mapping[str, Tool]]


class RunAgentHandler:
    """Handles one message at a time a run; many runs at once.

    Delivered twice, late, or for a run that ended: the claim finds nothing to do, and it returns.
    """

    def __init__(self, here: Process) -> None:
        self._here = here
        self._journal = here.journal

    async def handle(self, message: RunAgentMessage) -> None:
        """Work the run off here; never raises for what happens inside the run.

        It may have to wait for its turn: a thread does one thing at a time.
        """
        loop = self._journal.loop
        try:
            while (begun := await loop.read(self.take, message)) is None:
                if not await loop.read(self._is_queued, message.run_id):
                    return  # somebody else has it, or it is over
                await asyncio.sleep(TURN_S)
        finally:
            self._here.guests.pop(message.run_id, None)
        await self.work_off(begun)

    def take(self, message: RunAgentMessage) -> Begun | None:
        """Return the run, claimed, and the agent that works on it; None when there is nothing to do.

        For a plain thread: it waits for imports the first time, and for a database that is locked or away.

        Raises:
            Retryable: the database stayed away for a minute; the run stays queued.
        """
        litellm_module()
        loaded = self._load(message.agent_id)
        begin = partial(self._begin, message.agent_id, loaded)
        patience_ends_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self._journal.claim_and_begin(message.run_id, begin)
            except Retryable as wrong:
                if time.monotonic() > patience_ends_s:
                    raise
                log.warning("could not claim yet run_id=%s: %s", message.run_id, wrong)
                time.sleep(PAUSE_S)  # on a thread of its own, for a server that is away

    def _is_queued(self, run_id: str) -> bool:
        with self._journal.read() as connection:
            return is_queued(connection, run_id)

    async def work_off(self, begun: Begun) -> None:
        """Let the agent work, and let the run go when it is over; never raises for what happens inside the run."""
        lease = begun.context.lease
        try:
            await self._work(begun)
        except StaleOwner:
            log.info("run left to its new owner run_id=%s", lease.run_id)
        finally:
            self._journal.keeper.let_go(lease.run_id, lease.fence)
            await end_writing(lease.run_id, lease.fence)
            self._journal.hot_log.nudge(self._journal.keys.board, lease.run_id)

    async def rehearse(self) -> None:
        """Do what the first run would otherwise pay for: import tools, find observers, ask for a run nobody has."""
        here, loop = self._here, self._journal.loop
        for agent_id in here.registry.ids():
            loaded = await loop.read(self._load, agent_id)
            if isinstance(loaded, CallboardError):
                log.warning("agent cannot be used: %s", loaded)
        await loop.read(observers_for, ("sse", "logger") if here.settings.builtins else (), here.settings)
        await self._journal.claim("run_of_nobody")
        await self._journal.hot_log.read_after("run_of_nobody", 0)

    def _load(self, agent_id: str) -> Loaded | CallboardError:
        """Return the agent as it is defined now with its tools, imported before anything is owned."""
        try:
            definition = self._here.registry.get(agent_id)
            return definition, tools_of(definition, self._journal.settings)
        except CallboardError as wrong:
            return wrong

    def _begin(self, named: str, loaded: Loaded | CallboardError, connection: Connection, lease: Lease) -> Begun:
        """Make ready what works on the run, and write its first step down, in the claim's transaction."""
        if lease.agent_id != named:  # a forged message: SQL says which agent it is
            loaded = self._load(lease.agent_id)
        observers, missing = self._observers(lease)
        context = RunContext.load(connection, self._journal, lease, observers)
        wrong = missing or (loaded if isinstance(loaded, CallboardError) else None)
        if wrong is not None or isinstance(loaded, CallboardError):
            return Begun(context, None, wrong)
        try:
            agent = Agent(loaded[0], loaded[1], context)
            first = agent.first_step()
        except Exception:
            log.exception("agent could not begin run_id=%s", lease.run_id)
            return Begun(context, None, _unforeseen())
        start_steps(connection, lease, [first])
        return Begun(context, agent)

    def _observers(self, lease: Lease) -> tuple[tuple[AgentObserver, ...], CallboardError | None]:
        """Return the run's observers; where one is missing, those that are there, and what is wrong."""
        guests = self._here.guests.pop(lease.run_id, ())
        settings = self._journal.settings
        try:
            return (*observers_for(lease.observers, settings), *guests), None
        except PluginUnknown as wrong:
            shipped = [name for name in lease.observers if name in ("sse", "logger") and settings.builtins]
            return (*observers_for(shipped, settings), *guests), wrong

    async def _work(self, begun: Begun) -> None:
        context, lease = begun.context, begun.context.lease
        begin_writing(self._journal.hot_log, lease.run_id, lease.fence, context.writer)
        for payload in lease.first_events:
            context.tell(payload)
        self._journal.hot_log.nudge(self._journal.keys.board, lease.run_id)
        if begun.agent is None:
            assert begun.wrong is not None
            await self._fail_unbegun(context, begun.wrong)
        else:
            await self._run(begun.agent, context)

    async def _run(self, agent: Agent, context: RunContext) -> None:
        work = asyncio.create_task(agent.run(), name=f"run {context.lease.run_id}")
        context.halt = context.writer.on_lost = lambda: _cancel(work)
        await self._journal.keeper.keep(context.writer, context.stop)
        try:
            await work
        except asyncio.CancelledError:
            if context.writer.is_stale:
                raise StaleOwner(context.lease.run_id, context.lease.fence) from None
            if not context.is_stopped:
                raise
            await agent.finish_stopped()
        except StaleOwner:
            raise
        except CallboardError as wrong:
            await agent.finish_failed(wrong)
        except Exception:
            log.exception("run failed unexpectedly run_id=%s", context.lease.run_id)
            await agent.finish_failed(_unforeseen())

    async def _fail_unbegun(self, context: RunContext, wrong: CallboardError) -> None:
        """End a run whose agent could not be loaded."""
        error = ErrorPayload(code=wrong.code, message=str(wrong), retryable=False)
        end = EndPayload(
            status="failed", reason=wrong.code, steps=0, duration_ms=epoch_ms() - context.lease.created_ms
        )  # fmt: skip
        note = HistoryItem(id=new_id("msg"), role="error", data={"content": str(wrong), "code": wrong.code})
        await context.save(Commit(events=[error, end], history=[note], error_code=wrong.code))


def _unforeseen() -> RunFailed:
    return RunFailed("something went wrong that nobody foresaw; the worker's log has the details.")


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
    handler = RunAgentHandler(here)
    begun = handler.take(message)  # on this thread, which has nothing else to do
    if begun is not None:
        here.journal.loop.run(handler.work_off(begun))
