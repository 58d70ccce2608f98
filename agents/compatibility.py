"""Compatibility of a run with this process: its definition must be available, and its open calls must fit the tools."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from agents.agent import Agent
from agents.catalogue import tools_of
from agents.context import RunContext
from agents.errors import AgentUnknown, ArgumentsInvalid, run_failed
from agents.governance.guardrails.guardrails import guardrails_of
from agents.process import Process
from agents.tool_run import ToolRun
from agents.tools.requests import missing_form
from agents.tools.schema import parse_arguments, validate_arguments
from agents.tools.tool import Tool
from bus.journal.errors import CodeVersion
from bus.journal.owner import AcceptedCall, AcceptedInput, Ending, FirstCommit, OpenStep, Progress
from config.definitions.agent import AgentDefinition
from config.definitions.behaviour import behaviour_in
from config.definitions.errors import DefinitionInvalid, DefinitionUnreadable, ToolUnknown
from config.definitions.loading import pinned_definition
from config.effects import POLICIES, Effect
from config.errors import CallboardError, Retryable


class RunWork(Protocol):
    """What an owner does about its run: an agent's turn, or one call of a tool."""

    def begin(self) -> FirstCommit:
        """Return what has to be committed before ``run``, with the claim."""

    async def run(self) -> None:
        """Work until the run has ended or is released; an error ends it by ``finish``."""

    async def release(self) -> None:
        """Give the run back in the middle of its work, for the next owner to resume."""

    async def finish(self, ending: Ending) -> None:
        """End the run early; every open step and call gets a result."""


log = logging.getLogger(__name__)

OF_NODES = ("approval_gate", "for_each")
"""The names of calls whose tool a workflow's node makes of its definition, which the run keeps."""
MAX_DETAIL = 500
"""Characters of the reason why a run waits."""
LoadedAgent = tuple[AgentDefinition, Mapping[str, Tool]]


def try_load(process: Process, agent_id: str, digest: str = "") -> LoadedAgent | CallboardError:
    """Load the agent with its tools and return it, or its error; ``digest`` names a stored definition."""
    try:
        return load_agent(process, agent_id, digest)
    except Retryable:
        raise
    except CallboardError as error:
        return error
    except Exception:  # one agent's code or definition; no other run may be affected
        log.exception("agent could not be loaded agent_id=%s", agent_id)
        return run_failed()


def load_agent(process: Process, agent_id: str, digest: str = "") -> LoadedAgent:
    """Return an agent with its tools: the definition with ``digest``, or the file's present one.

    Raises:
        AgentUnknown, DefinitionInvalid, ToolUnknown: it cannot be used in this process.
        CodeVersion: the run was accepted with another definition, and this code cannot read it or lacks its tools; a
            worker of the release that accepted the run may have them.
        SettingInvalid: the deployment's guardrails cannot be used; they are read here, before the claim's transaction.
    """
    current: AgentDefinition | CallboardError
    try:
        current = process.registry.get(agent_id)
    except (AgentUnknown, DefinitionInvalid) as error:
        current = error
    if digest and not (isinstance(current, AgentDefinition) and current.digest == digest):
        recorded = _load_recorded(process, agent_id, digest, current)
        if recorded is not None:
            return recorded
    if isinstance(current, CallboardError):
        raise current
    guardrails_of(process.settings, current.guardrails)
    return current, tools_of(current, process.settings, process.tools)


def _load_recorded(
    process: Process, agent_id: str, digest: str, current: AgentDefinition | CallboardError
) -> LoadedAgent | None:
    """Return the definition with this digest and its tools; None where the journal has none."""
    content_json = process.journal.readers.recorded_definition(digest)
    if content_json is None:
        return None
    if isinstance(current, AgentDefinition) and current.behaviour == behaviour_in(content_json):
        # Only names and descriptions differ, so whether this code takes the earlier ones makes no difference.
        definition = current.model_copy(update={"digest": digest, "content_json": content_json})
    else:
        definition = _pinned(agent_id, digest, content_json)
    guardrails_of(process.settings, definition.guardrails)
    try:
        return definition, tools_of(definition, process.settings, process.tools)
    except (DefinitionInvalid, ToolUnknown) as error:
        raise CodeVersion(f"this worker lacks what the definition the run began with names: {error}") from error


def _pinned(agent_id: str, digest: str, content_json: str) -> AgentDefinition:
    try:
        return pinned_definition(agent_id, digest, content_json)
    except DefinitionInvalid as error:
        raise CodeVersion(f"this worker's code does not take the definition the run began with: {error}") from error


def unusable(error: CallboardError, progress: Progress) -> CallboardError:
    """Return why a run ends or waits whose agent cannot be loaded here: another worker may continue what was begun."""
    if isinstance(error, DefinitionUnreadable):
        return _with_cause(CodeVersion(f"this worker cannot read what the run needs: {error}"), error)
    if progress == Progress() or isinstance(error, CodeVersion):
        return error
    return _with_cause(CodeVersion(f"this worker cannot continue the run: {error}"), error)


def _with_cause(error: CallboardError, cause: CallboardError) -> CallboardError:
    error.__cause__ = cause
    return error


def compatible_work(
    loaded: LoadedAgent,
    context: RunContext,
    progress: Progress,
    accepted: AcceptedCall | AcceptedInput | None,
    handlers: Callable[[], Mapping[str, str]],
) -> RunWork:
    """Return what begins or resumes the run: its agent, the call that it asks for, or its workflow.

    ``handlers`` returns those of the node types.

    Raises:
        CodeVersion: the run's journal is not compatible with this code; another worker may be.
    """
    problem = incompatibility(loaded, context.lease.definition_digest, progress)
    if problem is not None:
        raise CodeVersion(problem)
    match accepted:
        case None:
            return Agent(*loaded, context, progress)
        case AcceptedCall():
            return ToolRun(*loaded, context, accepted, progress)
        case AcceptedInput():
            from agents.workflows.workflow import workflow_of  # most processes work on no workflow

            return workflow_of(loaded, context, accepted, handlers(), progress)


def incompatibility(loaded: LoadedAgent, digest: str, progress: Progress) -> str | None:
    """Return why a run cannot be resumed with this definition and these tools; None where it can."""
    definition, tools = loaded
    if progress != Progress() and definition.digest != digest:
        return f"the definition of '{definition.id}' this run began with is not kept, and its file has changed."
    # A call whose tool or arguments were invalid has no recorded effect; it fails again. A child run needs none.
    calls = (step for step in progress.calls if step.name not in OF_NODES)
    needed = [step for step in calls if step.may_be_called and step.child is None]
    missing = [step.name for step in needed if step.name not in tools]
    if missing:
        return f"a call of this run is unfinished, and its tool is not here any more: {', '.join(missing)}."
    asks = definition.ask_missing_arguments
    problems = (_changed(step, tools[step.name], asks_missing=asks) for step in needed)
    return next((problem for problem in problems if problem is not None), None)


def _changed(step: OpenStep, tool: Tool, *, asks_missing: bool) -> str | None:
    """Return why an unfinished call cannot be made with its tool as it is in this process."""
    if step.arguments_text is None:
        return f"the message of the unfinished call '{step.call_id}' cannot be read by this code."
    edited = step.answer.edited
    try:
        arguments = parse_arguments(step.arguments_text) if edited is None else edited
        is_incomplete = edited is None and step.status == "planned" and missing_form(tool.parameters, arguments)
        if not (asks_missing and is_incomplete):  # a person has not filled in the rest yet
            validate_arguments(tool, arguments)
    except ArgumentsInvalid as error:
        return f"a call of this run is unfinished, and its tool has changed: {error}"[:MAX_DETAIL]
    if step.effect not in POLICIES:
        return f"a call of this run is unfinished, and this worker's code does not know its effect '{step.effect}'."
    recorded = Effect(step.effect)
    if tool.effect.is_riskier_than(recorded):
        return f"a call of this run is unfinished, and {step.name} was {step.effect} then and is {tool.effect} here."
    if recorded.policy.needs_check and tool.check is None:
        return f"a call of this run is unfinished, and {step.name} has no check any more that says what became of it."
    return None
