"""Begins a claimed run with its agent, in the claim's own transaction, and executes it until its end or release."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial

from agents.compatibility import LoadedAgent, RunWork, compatible_work, unusable
from agents.context import RunContext, Spending, may_be_sticky
from agents.errors import SECURITY_CONTEXT_MISSING, run_failed
from agents.governance.engine.governance import report_end, report_start
from agents.governance.guardrails.guardrails import Guardrails, guardrails_of
from agents.models.abilities import note_shortcomings
from agents.models.call import is_in_process
from agents.models.errors import ModelKeyMissing
from agents.models.lite import is_imported, litellm_module
from agents.process import Process
from agents.prompt import Window, summary_text
from agents.run_contexts import contexts_of
from agents.steps.sample_step import sampling
from bus.journal import Journal
from bus.journal.clients import NO_MODEL, STOPPED, WORKFLOW
from bus.journal.errors import CodeVersion, PrincipalDisabled, StaleOwner
from bus.journal.owner import (
    AcceptedCall,
    AcceptedInput,
    Claim,
    Commit,
    Ending,
    Lease,
    Progress,
    Reason,
    Release,
    Summary,
    Totals,
    end_commit,
)
from bus.payloads import HistoryPayload, Payload, StatusPayload
from config.definitions.agent import AgentDefinition
from config.definitions.errors import DefinitionUnreadable
from config.definitions.guardrails.checks import GuardrailFields
from config.errors import CallboardError
from config.identity.contexts import working_for
from config.logs import acting_for
from config.settings import Settings
from config.tracing import traced
from observers.discovery import resolve_observers

log = logging.getLogger(__name__)

NEW_OWNER = "run left to its new owner run_id=%s"


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """A claimed run with what works on it, or with the error because of which it cannot be executed."""

    context: RunContext
    agent: RunWork | None
    error: CallboardError | None = None
    events: Sequence[Payload] = ()
    """Events that the claim committed for the agent, after the lease's own; observers get them next."""
    held: ExitStack = field(default_factory=ExitStack)
    """What this process holds for the run; closed when the run leaves it."""
    definition: AgentDefinition | None = None
    """That of its agent, where it could be loaded."""


def import_for(process: Process, run_id: str) -> CallboardError | None:
    """Import LiteLLM where the run's model needs it, and return the error where it cannot be imported.

    To be called before the claim, since the import takes seconds. The error ends the run; otherwise workers would
    claim and release it for ever.
    """
    if is_imported():
        return None
    model = process.journal.readers.runs.model(run_id)
    if model is None or model == NO_MODEL or is_in_process(model):
        return None
    try:
        litellm_module()
    except CallboardError as error:
        log.warning("run cannot be begun run_id=%s: %s", run_id, error)
        return error
    return None


def begin_run(
    claim: Claim,
    process: Process,
    loaded: LoadedAgent | CallboardError,
    on_cleared: Callable[[], object] = lambda: None,
) -> ClaimedRun:
    """Return the run with its agent, and insert its first step in the claim's transaction.

    ``on_cleared`` is called when the tool calls that the run is suspected of have ended.
    """
    lease, settings = _as_replayed(claim.lease, process), process.settings
    observers, missing = resolve_observers(lease.observers, settings, process.journal.live.hot_log)
    observers = (*observers, *process.local_observers.get(lease.run_id, ()))
    contexts = contexts_of(lease, process.journal.settings)
    context_of = partial(RunContext, process.journal, lease, observers, contexts=contexts)
    try:
        claim.require_readable()  # else this code reads nothing of it
        require_enabled(lease, process)
    except (CodeVersion, PrincipalDisabled) as error:
        return ClaimedRun(context_of(), None, error)
    progress, accepted = claim.progress(), claim.call() or claim.input()
    try:
        if missing is not None or contexts.security is None:
            raise missing or SECURITY_CONTEXT_MISSING()
        policy = process.policies.current()
        (definition, tools), guardrails = _usable(loaded, settings, progress)
    except CallboardError as error:
        return ClaimedRun(context_of(), None, error)
    has_calls = bool(progress.calls) or accepted is not None
    context = context_of(
        chat_history=_window(claim, definition),
        policy=policy,
        guardrails=partial(Guardrails, guardrails),
        spending=Spending(progress.totals),
        sampling=partial(sampling, definition),
        sticky=claim.sticky() if has_calls and may_be_sticky(policy, tools.values()) else (),
        on_cleared=on_cleared,
    )
    context.inbox.begin(() if lease.stop_requested else claim.unread_controls(), progress.max_rounds)
    return _begin_work(claim, process, (definition, tools), context, progress, accepted)


def _as_replayed(lease: Lease, process: Process) -> Lease:
    """Return the lease with the outcomes that the run's calls get, where a test replays it."""
    replayed = process.replays.get(lease.thread_id)
    return lease if replayed is None else replace(lease, recorded=replayed)


def _window(claim: Claim, definition: AgentDefinition) -> Window:
    past = claim.history(definition.history_chars, with_summary=definition.compaction.enabled)
    return Window(past, definition.history_chars)


def _usable(
    loaded: LoadedAgent | CallboardError, settings: Settings, progress: Progress
) -> tuple[LoadedAgent, GuardrailFields]:
    """Return the agent with the guardrails of its runs, whose file may have changed since the agent was loaded.

    Raises:
        CallboardError: one of both cannot be used here.
    """
    if isinstance(loaded, CallboardError):
        raise unusable(loaded, progress)
    try:
        return loaded, guardrails_of(settings, loaded[0].guardrails)
    except DefinitionUnreadable as error:
        raise unusable(error, progress) from error


def _begin_work(
    claim: Claim,
    process: Process,
    loaded: LoadedAgent,
    context: RunContext,
    progress: Progress,
    accepted: AcceptedCall | AcceptedInput | None,
) -> ClaimedRun:
    """Return the run with what works on it, or with why nothing can, and insert its first step."""
    try:
        agent = compatible_work(loaded, context, progress, accepted, claim.node_handlers)
        process.model_keys.require(loaded[0], context.lease.model)
        if context.lease.model != NO_MODEL:
            note_shortcomings(loaded[0], context.lease.model)
        first = agent.begin()
    except CallboardError as error:
        return ClaimedRun(context, None, error)
    except Exception:
        log.exception("agent could not begin run_id=%s", context.lease.run_id)
        return ClaimedRun(context, None, run_failed())
    summary = context.chat_history.summary if accepted is None else None  # one call of a tool asks no model
    if summary is not None and not summary.is_used:
        first = replace(first, events=[_compacted(summary), *first.events], summary_used=summary.id)
    first = replace(first, events=context.writer.number(first.events))
    claim.write(first)  # an error from here on is the database's and rolls the claim back
    return ClaimedRun(context, agent, events=first.events, definition=loaded[0])


def _compacted(summary: Summary) -> HistoryPayload:
    """Return the event that says what a run is given in place of messages."""
    _, last = summary.upto
    return HistoryPayload(kind="compacted", from_seq=summary.from_number, to_seq=last, summary=summary_text(summary))


def require_enabled(lease: Lease, process: Process) -> None:
    """Return unless the run's principal is disabled, and this installation does not serve it all the same.

    Raises:
        PrincipalDisabled: it is.
    """
    is_served = process.settings.auth != "required" and process.settings.is_local_name(lease.tenant, lease.principal)
    if lease.is_disabled and not is_served:
        raise PrincipalDisabled(principal=lease.principal)


async def execute(journal: Journal, claimed: ClaimedRun) -> None:
    """Run the agent until the run ends, waits or is released; errors of the run are recorded, not raised."""
    context, lease = claimed.context, claimed.context.lease
    ids = lease.trace_id, lease.correlation_id, lease.run_id
    with traced(*ids), working_for(lease.tenant, context.contexts.declared, context.security):
        await _execute(journal, claimed)


async def _execute(journal: Journal, claimed: ClaimedRun) -> None:
    context, lease = claimed.context, claimed.context.lease
    before = acting_for.set((lease.tenant, lease.principal))
    try:
        _notify_of_claim(journal, context, claimed.events)
        if claimed.agent is not None:
            await _work(journal, claimed.agent, context)
        else:
            assert claimed.error is not None
            await _give_up(journal, context, claimed.error)
    except StaleOwner:
        log.info(NEW_OWNER, lease.run_id)
    finally:
        claimed.held.close()
        await journal.owner.disown(lease)
        await report_end(context.governance, context.end)
        acting_for.reset(before)


def _notify_of_claim(journal: Journal, context: RunContext, committed: Sequence[Payload]) -> None:
    """Deliver to observers the events that were written without an owner (such as a person's answer), and the claim's.

    If this process crashes before, observers miss these events: the next owner delivers only those after this claim,
    so that no event is delivered twice.
    """
    lease = context.lease
    for payload in lease.undelivered:  # not to the hot log: the process that wrote them has put them there
        context.notify(payload)
    journal.owner.begin_writing(lease, context.writer)
    for payload in (*lease.first_events, *committed):
        context.notify(payload)
    journal.live.hot_log.nudge(journal.live.keys.board(lease.tenant), lease.run_id)


async def _begin_and_run(context: RunContext, agent: RunWork) -> None:
    """Run the agent; of a new run, first send the governance engine that it begins."""
    if context.governance is not None and context.lease.fence == 1:
        items = context.chat_history.items
        await report_start(context.governance, items[-1].data if items else None)
    await agent.run()


async def _work(journal: Journal, agent: RunWork, context: RunContext) -> None:
    for request in context.inbox.unread_at_claim:  # else a resumed run is at its next boundary before it has them
        context.inbox.receive(request)
    work = context.begin(_begin_and_run(context, agent))
    await journal.owner.lease_manager.track(context.writer, context)
    try:
        await work
    except asyncio.CancelledError:
        if context.writer.is_stale:
            log.info(NEW_OWNER, context.lease.run_id)
        elif context.inbox.is_stopped:
            await _finish(journal, agent, context, STOPPED)
        elif context.inbox.release_as is not None:
            await agent.release()
        else:
            raise
    except StaleOwner:
        raise
    except ModelKeyMissing as error:  # since the run began; the next claim here finds that out before it begins
        if await _has_key_elsewhere(journal, context.lease, error):
            await agent.release()
        else:
            await _finish(journal, agent, context, Ending.failed(error))
    except CallboardError as error:
        await _finish(journal, agent, context, Ending.failed(error))
    except Exception:
        log.exception("run failed unexpectedly run_id=%s", context.lease.run_id)
        await _finish(journal, agent, context, Ending.failed(run_failed()))


async def _finish(journal: Journal, agent: RunWork, context: RunContext, ending: Ending) -> None:
    """End the run early by what its owner has in memory; where that cannot be committed, by what the journal has."""
    try:
        await agent.finish(ending)
    except StaleOwner:
        raise
    except Exception:
        log.exception("run is ended by its journal alone run_id=%s", context.lease.run_id)
        await journal.owner.fail_owned(context.lease, ending.error or run_failed())


async def _give_up(journal: Journal, context: RunContext, error: CallboardError) -> None:
    """Release a run that another worker can resume, or this one later; end one that no worker can begin or resume."""
    if isinstance(error, ModelKeyMissing) and await _has_key_elsewhere(journal, context.lease, error):
        error = CodeVersion(f"a worker without the model's key has given the run back to those that have it: {error}")
    if isinstance(error, CodeVersion):
        await _wait(context, Reason.CODE_VERSION, error)
    elif isinstance(error, PrincipalDisabled) and context.settings.disabled_principal == "wait":
        await _wait(context, Reason.PRINCIPAL_DISABLED, error)
    elif context.lease.fence > 1:  # an earlier owner may have left open calls and costs
        await journal.owner.fail_owned(context.lease, error)
    else:
        await context.save_end(end_commit(Ending.failed(error), Commit(), Totals(), context.took))


async def _has_key_elsewhere(journal: Journal, lease: Lease, error: ModelKeyMissing) -> bool:
    """Return whether another live worker of the run's queue has the key that this process lacks."""
    having = partial(journal.stores.workers.with_key, lease.queue, error.variables, apart_from=journal.owner.id)
    return bool(await journal.loop.read(having))


async def _wait(context: RunContext, reason: Reason, error: CallboardError) -> None:
    """Release the run until what the error says has changed, at most as long as a question waits.

    A workflow that was stopped waits too: only an owner undoes what it did.
    """
    waits, lease = StatusPayload(status="waiting", reason=reason), context.lease
    ends_ms, is_undoing = await context.wait_expiry_ms(), lease.stop_requested and lease.kind == WORKFLOW
    release = Release(status="waiting", reason=reason, detail=str(error), ends_ms=ends_ms, is_undoing=is_undoing)
    await context.save(Commit(events=[waits], release=release))
