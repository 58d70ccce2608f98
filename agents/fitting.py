"""Which code goes on with a run: its own definition, and tools that what is recorded of it still fits."""

from __future__ import annotations

from collections.abc import Mapping

from agents.agent import Agent
from agents.context import RunContext
from agents.process import Process
from agents.tools.arguments import parse_arguments, validate_arguments
from agents.tools.catalogue import tools_of
from agents.tools.tool import Effect, Tool
from bus.journal.form import JOURNAL
from bus.journal.pinned import read_pinned
from bus.journal.progress import NOTHING_YET, OpenStep, Progress
from config.definitions import AgentDefinition, pinned_definition
from config.errors import AgentUnknown, ArgumentsInvalid, CallboardError, CodeVersion, DefinitionInvalid, ToolUnknown

MAX_DETAIL = 500
"""Characters of why a run waits."""
Loaded = tuple[AgentDefinition, Mapping[str, Tool]]


def load_agent(here: Process, agent_id: str, digest: str = "") -> Loaded:
    """Return an agent with its tools: as it was when a run was accepted with ``digest``, or as it is now.

    Raises:
        AgentUnknown, DefinitionInvalid, ToolUnknown: it cannot be used in this process.
        CodeVersion: the run was accepted with another definition than the one here, and this code does not take
            it or lacks its tools; a worker of the release that accepted it may have them.
    """
    current = _current_definition(here, agent_id)
    is_own = isinstance(current, AgentDefinition) and current.digest == digest
    then = _definition_then(here, agent_id, digest) if digest and not is_own else None
    if then is None:
        if isinstance(current, CallboardError):
            raise current
        return current, tools_of(current, here.settings)
    try:
        return then, tools_of(then, here.settings)
    except (DefinitionInvalid, ToolUnknown) as wrong:
        raise CodeVersion(f"this worker lacks what the definition the run began with names: {wrong}") from wrong


def _current_definition(here: Process, agent_id: str) -> AgentDefinition | CallboardError:
    try:
        return here.registry.get(agent_id)
    except (AgentUnknown, DefinitionInvalid) as wrong:
        return wrong


def _definition_then(here: Process, agent_id: str, digest: str) -> AgentDefinition | None:
    """Return the definition with this digest; None where it was never kept.

    Raises:
        CodeVersion: this code does not take it.
    """
    with here.journal.read() as connection:
        content_json = read_pinned(connection, digest)
    if content_json is None:
        return None
    try:
        return pinned_definition(agent_id, digest, content_json)
    except DefinitionInvalid as wrong:
        raise CodeVersion(f"this worker's code does not take the definition the run began with: {wrong}") from wrong


def fitting_agent(loaded: Loaded | CallboardError, context: RunContext, progress: Progress) -> Agent:
    """Return the agent that begins the run, or goes on with it.

    Raises:
        CodeVersion: what is recorded of the run does not fit this code; another worker may have what it needs.
        CallboardError: nothing is recorded yet, and the agent cannot be used.
    """
    if isinstance(loaded, CallboardError):
        if progress == NOTHING_YET or isinstance(loaded, CodeVersion):
            raise loaded
        raise CodeVersion(f"this worker cannot go on with the run: {loaded}") from loaded
    problem = misfit(loaded, context.lease.definition_digest, progress)
    if problem is not None:
        raise CodeVersion(problem)
    return Agent(*loaded, context, progress)


def require_known_form(journal: int) -> None:
    """The run's journal has a form this code reads; to be asked before anything of it is read.

    Raises:
        CodeVersion: newer code wrote it.
    """
    if journal > JOURNAL:
        raise CodeVersion(
            f"this run's journal has form {journal}, and this worker's code reads {JOURNAL}; update the worker."
        )


def misfit(loaded: Loaded, digest: str, progress: Progress) -> str | None:
    """Return why a run that has come so far cannot go on with this definition and these tools; None: it can."""
    definition, tools = loaded
    if progress != NOTHING_YET and definition.digest != digest:
        return f"the definition of '{definition.id}' this run began with is not kept, and its file has changed."
    # A call that could not be made has no effect written down; it fails as it did the first time.
    needed = [step for step in progress.calls if step.may_be_called]
    missing = [step.name for step in needed if step.name not in tools]
    if missing:
        return f"a call of this run is unfinished, and its tool is not here any more: {', '.join(missing)}."
    return next((problem for step in needed if (problem := _changed(step, tools[step.name])) is not None), None)


def _changed(step: OpenStep, tool: Tool) -> str | None:
    """Return why an unfinished call cannot be made with its tool as it is here."""
    if step.arguments_text is None:
        return f"the message of the unfinished call '{step.call_id}' cannot be read by this code."
    try:
        validate_arguments(tool, parse_arguments(step.arguments_text))
    except ArgumentsInvalid as wrong:
        return f"a call of this run is unfinished, and its tool has changed: {wrong}"[:MAX_DETAIL]
    if _RISK.index(tool.effect) > _RISK.index(Effect(step.effect)):
        return f"a call of this run is unfinished, and {step.name} was {step.effect} then and is {tool.effect} here."
    if step.effect == Effect.CHECKABLE and tool.check is None:
        return f"a call of this run is unfinished, and {step.name} has no check any more that says what became of it."
    return None


_RISK = (Effect.PURE, Effect.IDEMPOTENT, Effect.KEYED, Effect.CHECKABLE, Effect.UNSAFE)
