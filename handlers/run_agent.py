"""RunAgentMessage: claim the run, switch to its principal, load the agent, let it work, write down the end."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from sqlalchemy import Connection

from agents.agent import Agent
from agents.context import RunContext
from agents.fitting import Loaded, fitting_agent, load_agent, require_known_form
from agents.models.demo import is_demo
from agents.models.lite import is_imported, litellm_module
from agents.process import Process, process
from bus.celery_app import app
from bus.journal.approvals import use
from bus.journal.crashes import SUSPECT_AFTER, absolve
from bus.journal.endings import fail_owned
from bus.journal.hotlog import begin_writing, end_writing
from bus.journal.leases import Lease, hold, is_lapsed
from bus.journal.parting import Parting
from bus.journal.progress import NOTHING_YET, read_progress
from bus.journal.runs import model_of, status_of
from bus.journal.steps import restart_steps, start_steps
from bus.journal.threads import HistoryItem
from bus.journal.writer import Commit
from bus.messages import MessageInvalid, RunAgentMessage
from bus.payloads import TERMINAL, EndPayload, ErrorPayload, StatusPayload
from config.errors import CallboardError, CodeVersion, Permanent, Retryable, StaleOwner
from config.ids import new_id
from handlers.audience import audience
from handlers.desk import desk
from observers.base import AgentObserver
from observers.discovery import observers_for

log = logging.getLogger(__name__)


TURN_S = 0.3
"""How often a run that is worked off here looks whether its thread is free."""
WAITING_S = 1.0
"""How often it looks at a run that waits for a person, or that somebody else works on."""
PATIENCE_S = 60.0
"""How long a claim is tried while the database is locked or away."""
PAUSE_S = 0.5
REHEARSAL_S = 20.0
"""How long a worker that starts waits for its agents' tools to be imported."""


class RunFailed(Permanent):
    """Something nobody foresaw; its details are in the worker's log."""

    code = "internal"
    status = 500


class _Quarantined(Exception):
    """Another suspect is worked on here."""


class _Mistold(Exception):
    """A message says another agent, or another definition, than the run was accepted with."""

    def __init__(self, lease: Lease) -> None:
        super().__init__(lease.run_id)
        self.lease = lease


@dataclass(frozen=True, slots=True)
class Begun:
    """A claimed run and who works on it; or why nobody can."""

    context: RunContext
    agent: Agent | None
    wrong: CallboardError | None = None


class RunAgentHandler:
    """Handles one message at a time a run; many runs at once.

    Delivered twice, late, or for a run that ended: the claim finds nothing to do, and it returns.
    """

    def __init__(self, here: Process) -> None:
        self._here = here
        self._journal = here.journal
        self._held_s = 0.0  # when the run was last held that waits here for its thread

    async def handle(self, message: RunAgentMessage) -> None:
        """Work the run off here; never raises for what happens inside the run.

        It may have to wait for its turn: a thread does one thing at a time. A run that comes to wait for a
        person, or that is lost on the way, goes on here too, unless somebody else took it up: there may be no
        fleet. So this ends with the run, or when the process leaves.
        """
        try:
            status = await self._look_after(message, "queued")
            while await self._is_time_again(status):
                status = await self._look_after(message, status)
        finally:
            self._here.guests.pop(message.run_id, None)

    async def _is_time_again(self, status: str) -> bool:
        """Wait until the run should be looked at again, and return whether it should at all."""
        if status in TERMINAL:
            return False
        await asyncio.sleep(TURN_S if status == "queued" else WAITING_S)
        return not self._journal.keeper.is_leaving

    async def _look_after(self, message: RunAgentMessage, status: str) -> str:
        """Do what can be done here for a run in that state, and return its state then, as far as it is known."""
        try:
            if status == "queued":
                return await self._work_if_free(message)
            if status == "running":
                await self._requeue_if_lost(message.run_id)
            return await self._status(message)
        except Retryable as wrong:
            log.warning("could not look after a run yet run_id=%s: %s", message.run_id, wrong)
            await asyncio.sleep(PAUSE_S)
            return status

    async def _requeue_if_lost(self, run_id: str) -> None:
        """Do what the reaper does for a run nobody owns any more: a program that only waits for its run has none."""
        journal = self._journal
        if journal.keeper.keeps(run_id) or not await journal.loop.read(is_lapsed, journal.database, run_id):
            return
        written = await journal.loop.write(journal.reaper.reap, run_id)
        if written is not None:
            journal.spread(written)

    async def _work_if_free(self, message: RunAgentMessage) -> str:
        """Work the run off if nobody has it, and return its state then."""
        begun = await self._journal.loop.wait(self._claim, message)
        if begun is not None:
            await self.work_off(begun)
        status = await self._status(message)
        if begun is None and status == "queued" and time.monotonic() - self._held_s >= self._journal.settings.beat_s:
            self._held_s = time.monotonic()
            await self._journal.loop.write(hold, self._journal.database, message.run_id, self._journal.settings.lease_s)
        return status

    async def _status(self, message: RunAgentMessage) -> str:
        return await self._journal.loop.read(self._read_status, message.run_id)

    def _read_status(self, run_id: str) -> str:
        with self._journal.read() as connection:
            return status_of(connection, run_id)

    def take(self, message: RunAgentMessage) -> Begun | None:
        """Return the run, claimed, and the agent that works on it; None when there is nothing to do.

        For a plain thread: it waits for imports the first time, and for a database that is locked or away.

        Raises:
            Retryable: the database stayed away for a minute; the run stays queued.
        """
        patience_ends_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self._claim(message)
            except Retryable as wrong:
                if time.monotonic() > patience_ends_s:
                    raise
                log.warning("could not claim yet run_id=%s: %s", message.run_id, wrong)
                time.sleep(PAUSE_S)  # on a thread of its own, for a server that is away

    def _claim(self, message: RunAgentMessage) -> Begun | None:
        self._prepare(message.run_id)
        try:
            return self._claim_as_told(message)
        except _Mistold as wrong:  # loading may import modules, which no other run's commit shall wait for
            told = replace(message, agent_id=wrong.lease.agent_id, definition_digest=wrong.lease.definition_digest)
            return self._claim_as_told(told)

    def _claim_as_told(self, message: RunAgentMessage) -> Begun | None:
        with ExitStack() as undo:
            loaded = self._load(message.agent_id, message.definition_digest)
            begin = partial(self._begin, message, loaded, undo)
            try:
                begun = self._journal.claim_and_begin(message.run_id, begin)
            except _Quarantined:
                log.info("run waits for a process without another that crashed as often run_id=%s", message.run_id)
                return None
            undo.pop_all()
            return begun

    def _prepare(self, run_id: str) -> None:
        """Import LiteLLM where the run's model needs it: it takes seconds, in which nothing should be owned."""
        if is_imported():
            return
        with self._journal.read() as connection:
            model = model_of(connection, run_id)
        if model is not None and not is_demo(model):
            litellm_module()

    async def work_off(self, begun: Begun) -> None:
        """Let the agent work, and let the run go when it is over; never raises for what happens inside the run."""
        lease = begun.context.lease
        try:
            await self._work(begun)
        except StaleOwner:
            log.info("run left to its new owner run_id=%s", lease.run_id)
        finally:
            desk().end_quarantine(lease.run_id)
            self._journal.keeper.let_go(lease.run_id, lease.fence)
            await end_writing(lease.run_id, lease.fence)
            self._journal.hot_log.nudge(self._journal.keys.board, lease.run_id)

    async def rehearse(self) -> None:
        """Do what the first run would otherwise pay for: import tools, find observers, ask for a run nobody has."""
        here, loop = self._here, self._journal.loop
        loading = [asyncio.create_task(self._try_agent(agent_id)) for agent_id in here.registry.ids()]
        if loading:  # a module that hangs while it is imported holds up its own agent's runs and not the worker
            await asyncio.wait(loading, timeout=REHEARSAL_S)
        await loop.read(observers_for, ("sse", "logger") if here.settings.builtins else (), here.settings)
        await self._journal.claim("run_of_nobody")
        await self._journal.hot_log.read_after("run_of_nobody", 0)

    async def _try_agent(self, agent_id: str) -> None:
        loaded = await self._journal.loop.read(self._load, agent_id)
        if isinstance(loaded, CallboardError):
            log.warning("agent cannot be used: %s", loaded)

    def _load(self, agent_id: str, digest: str = "") -> Loaded | CallboardError:
        """Return the agent with its tools, imported before anything is owned; with a ``digest``, as it was then."""
        try:
            return load_agent(self._here, agent_id, digest)
        except Retryable:
            raise
        except CallboardError as wrong:
            return wrong
        except Exception:  # one agent's code or definition; no other run may notice
            log.exception("agent could not be loaded agent_id=%s", agent_id)
            return _unforeseen()

    def _begin(
        self,
        told: RunAgentMessage,
        loaded: Loaded | CallboardError,
        undo: ExitStack,
        connection: Connection,
        lease: Lease,
    ) -> Begun:
        """Make ready what works on the run, and write its first step down, in the claim's transaction.

        Called again, the transaction was rolled back: what was done here before is undone first.

        Raises:
            _Mistold: the message names another agent than SQL does; it may be forged.
            _Quarantined: another suspect is worked on here.
        """
        undo.close()
        if (lease.agent_id, lease.definition_digest) != (told.agent_id, told.definition_digest):
            raise _Mistold(lease)
        if lease.is_suspect:
            if not desk().quarantine(lease.run_id):
                raise _Quarantined
            undo.callback(desk().end_quarantine, lease.run_id)
        observers, missing = self._observers(lease)
        try:
            require_known_form(lease.journal)
        except CodeVersion as wrong:
            return Begun(RunContext.unread(self._journal, lease, observers), None, wrong)
        history_chars = 0 if isinstance(loaded, CallboardError) else loaded[0].history_chars
        context = RunContext.load(connection, self._journal, lease, observers, history_chars)
        progress = read_progress(connection, lease.run_id) if lease.fence > 1 else NOTHING_YET
        if missing is not None:
            return Begun(context, None, missing)
        try:
            agent = fitting_agent(loaded, context, progress)
            opening = agent.begin()
        except CallboardError as wrong:
            return Begun(context, None, wrong)
        except Exception:
            log.exception("agent could not begin run_id=%s", lease.run_id)
            return Begun(context, None, _unforeseen())
        start_steps(connection, lease, opening.started)
        restart_steps(connection, lease, opening.restarted)
        use(connection, opening.answers_used)
        return Begun(context, agent)

    def _observers(self, lease: Lease) -> tuple[tuple[AgentObserver, ...], CallboardError | None]:
        """Return the run's observers; where one is missing, those that are there, and what is wrong."""
        observers, missing = audience(lease.observers, self._journal.settings)
        return (*observers, *self._here.guests.get(lease.run_id, ())), missing

    async def _work(self, begun: Begun) -> None:
        context, lease = begun.context, begun.context.lease
        self._tell_opening(context)
        self._journal.hot_log.nudge(self._journal.keys.board, lease.run_id)
        if begun.agent is not None:
            await self._run(begun.agent, context)
        elif isinstance(begun.wrong, CodeVersion):
            await self._wait_for_code(context, begun.wrong)
        else:
            assert begun.wrong is not None
            await self._fail_unbegun(context, begun.wrong)

    def _tell_opening(self, context: RunContext) -> None:
        """Tell the observers what was written while nobody owned the run, such as a person's answer, and the claim.

        An owner that is lost before it comes to this takes it with it, as all it committed and did not tell: the next
        owner tells only what was written after this claim, so that nothing is told twice.
        """
        lease = context.lease
        for payload in lease.unheard:  # not yet to the hot log: whoever wrote them has shown them to viewers
            context.tell(payload)
        begin_writing(self._journal.hot_log, lease.run_id, lease.fence, context.writer)
        for payload in lease.first_events:
            context.tell(payload)

    async def _run(self, agent: Agent, context: RunContext) -> None:
        work = asyncio.create_task(agent.run(), name=f"run {context.lease.run_id}")
        context.halt = context.writer.on_lost = lambda: _cancel(work)
        if context.lease.is_suspect and context.lease.crashes == SUSPECT_AFTER:
            context.on_calls_over = partial(self._absolve, context.lease)
        await self._journal.keeper.keep(context.writer, context)
        try:
            await work
        except asyncio.CancelledError:
            if context.writer.is_stale:
                raise StaleOwner(context.lease.run_id, context.lease.fence) from None
            if context.is_stopped:
                await agent.finish_stopped()
            elif context.is_released:
                await agent.let_go()
            else:
                raise
        except StaleOwner:
            raise
        except CallboardError as wrong:
            await agent.finish_failed(wrong)
        except Exception:
            log.exception("run failed unexpectedly run_id=%s", context.lease.run_id)
            await agent.finish_failed(_unforeseen())

    async def _absolve(self, lease: Lease) -> None:
        """Let the next suspect begin: this one survived the calls that it was suspected of."""
        try:
            is_noted = await self._journal.loop.write(absolve, self._journal.database, lease.run_id, lease.fence)
        except CallboardError as wrong:
            log.warning("suspect stays apart until it ends run_id=%s: %s", lease.run_id, wrong)
            return
        if is_noted:
            desk().end_quarantine(lease.run_id)

    async def _wait_for_code(self, context: RunContext, wrong: CodeVersion) -> None:
        """Leave a run to a worker whose code or tools fit what is recorded of it."""
        waits = StatusPayload(status="waiting", reason=wrong.code)
        parting = Parting(
            status="waiting", reason=wrong.code, detail=str(wrong), ends_ms=await context.wait_expiry_ms()
        )
        await context.save(Commit(events=[waits], parting=parting))

    async def _fail_unbegun(self, context: RunContext, wrong: CallboardError) -> None:
        """End a run that cannot be begun, or not gone on with, for a reason no other worker would mend."""
        lease = context.lease
        if lease.fence > 1:  # an earlier owner may have left calls and costs
            ended = await self._journal.loop.write(
                fail_owned, self._journal.database, lease.run_id, lease.fence, wrong
            )  # fmt: skip
            self._journal.spread(ended)
            return
        error = ErrorPayload(code=wrong.code, message=str(wrong), retryable=False)
        end = EndPayload(status="failed", reason=wrong.code, steps=0, duration_ms=context.duration_ms)
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
    with desk().place_for(message.run_id) as has_place:
        if not has_place:
            return  # the run stays queued; whoever has a place next, here or elsewhere, finds it there
        handler = RunAgentHandler(here)
        begun = handler.take(message)  # on this thread, which has nothing else to do
        if begun is not None:
            here.journal.loop.run(handler.work_off(begun))
