"""Texts of clients for runs that were accepted before; they pass the guardrails of the run's agent, like its input."""

from __future__ import annotations

from typing import Any

from agents.governance.guardrails.guardrails import sealing_guardrails
from agents.prompt import check_objective
from agents.registry import AgentRegistry
from bus.journal import Journal
from bus.sealing import Original
from config.definitions.agent import AgentDefinition
from config.definitions.loading import pinned_definition
from config.identity.principal import Principal


def steer_data(
    journal: Journal, registry: AgentRegistry, principal: Principal, run_id: str, content: str
) -> tuple[dict[str, str], list[Original]]:
    """Return the data of a steer: what the guardrails of a run's agent leave of the text; and what is to be sealed.

    Raises:
        RunUnknown: there is no such run, or the principal does not see it.
        INPUT_EMPTY, INPUT_TOO_LARGE, BadRequest, INPUT_BLOCKED: the text cannot be used.
    """
    check_objective(content, journal.settings.max_input_chars)
    run = journal.readers.runs.row(principal, run_id)
    definition = definition_of_run(journal, registry, run)
    text, originals = guarded(journal, definition, content)
    return {"content": text, "checked_by": definition.digest}, originals


def definition_of_run(journal: Journal, registry: AgentRegistry, run: Any) -> AgentDefinition:
    """Return the definition that a run was accepted with, or where that is not recorded, today's."""
    content_json = journal.readers.recorded_definition(run.definition_digest)
    if content_json is None:
        return registry.get(run.agent_id)
    return pinned_definition(run.agent_id, run.definition_digest, content_json)


def guarded(journal: Journal, definition: AgentDefinition, content: str) -> tuple[str, list[Original]]:
    """Return what an agent's guardrails leave of a text, and what is to be sealed of it."""
    guardrails, originals = sealing_guardrails(journal.settings, definition.guardrails)
    return guardrails.input(content), originals
