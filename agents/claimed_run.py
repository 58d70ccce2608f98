"""A claimed run with the agent that works on it, made in the claim's own transaction."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import dataclass, field

from agents.agent import Agent
from agents.compatibility import LoadedAgent, compatible_agent
from agents.context import RunContext
from agents.errors import RunFailed
from agents.models.in_process import is_in_process
from agents.models.lite import is_imported, litellm_module
from agents.process import Process
from agents.window import Window
from bus.journal import Claim, CodeVersion, Journal, Past, require_readable_journal
from config.errors import CallboardError
from observers.discovery import resolve_observers

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """A claimed run with its agent, or with the error because of which it cannot be executed."""

    context: RunContext
    agent: Agent | None
    error: CallboardError | None = None
    held: ExitStack = field(default_factory=ExitStack)
    """What this process holds for the run, such as the quarantine of a suspect; closed when the run leaves it."""

    async def clear_suspect(self, journal: Journal) -> None:
        """End the quarantine: this run completed the tool calls during which its owners crashed."""
        lease = self.context.lease
        try:
            is_noted = await journal.clear_suspect(lease)
        except CallboardError as error:
            log.warning("suspect stays in quarantine until it ends run_id=%s: %s", lease.run_id, error)
            return
        if is_noted:
            self.held.close()


def import_for(process: Process, run_id: str) -> CallboardError | None:
    """Import LiteLLM where the run's model needs it, and return the error where it cannot be imported.

    To be called before the claim, since the import takes seconds. The error ends the run; otherwise workers would
    claim and release it for ever.
    """
    if is_imported():
        return None
    model = process.journal.runs.model(run_id)
    if model is None or is_in_process(model):
        return None
    try:
        litellm_module()
    except CallboardError as error:
        log.warning("run cannot be begun run_id=%s: %s", run_id, error)
        return error
    return None


def begin_run(claim: Claim, process: Process, loaded: LoadedAgent | CallboardError) -> ClaimedRun:
    """Return the run with its agent, and insert its first step in the claim's transaction."""
    lease = claim.lease
    observers, missing = resolve_observers(lease.observers, process.settings)
    observers = (*observers, *process.local_observers.get(lease.run_id, ()))
    try:
        require_readable_journal(lease.journal)
    except CodeVersion as error:
        unread = Window(Past(items=[]), 0)  # this code does not read the run's journal
        return ClaimedRun(RunContext(process.journal, lease, observers, unread), None, error)
    history_chars = 0 if isinstance(loaded, CallboardError) else loaded[0].history_chars
    window = Window(claim.history(history_chars), history_chars)
    context = RunContext(process.journal, lease, observers, window)
    progress = claim.progress()
    if missing is not None:
        return ClaimedRun(context, None, missing)
    try:
        agent = compatible_agent(loaded, context, progress)
        first = agent.begin()
    except CallboardError as error:
        return ClaimedRun(context, None, error)
    except Exception:
        log.exception("agent could not begin run_id=%s", lease.run_id)
        return ClaimedRun(context, None, RunFailed())
    claim.write(first)  # an error from here on is the database's and rolls the claim back
    return ClaimedRun(context, agent)
