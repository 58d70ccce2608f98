"""Texts of clients for runs that were accepted before; they pass the guardrails of the run's agent, like its input."""

from __future__ import annotations

from agents.governance.guardrails.guardrails import sealing_guardrails
from agents.prompt import check_objective
from agents.registry import AgentRegistry
from bus.journal import Journal
from bus.journal.clients import CommitResult
from bus.sealing import Original
from config.definitions.agent import pinned_definition
from config.identity.principal import Principal


def guarded_text(
    journal: Journal, registry: AgentRegistry, principal: Principal, run_id: str, content: str
) -> tuple[str, list[Original]]:
    """Return what the guardrails of a run's agent leave of a text, and what is to be sealed of it.

    Raises:
        RunUnknown: there is no such run, or the principal does not see it.
        INPUT_EMPTY, INPUT_TOO_LARGE, BadRequest, INPUT_BLOCKED: the text cannot be used.
    """
    check_objective(content, journal.settings.max_input_chars)
    run = journal.readers.runs.row(principal, run_id)
    content_json = journal.readers.recorded_definition(run.definition_digest)
    if content_json is None:
        definition = registry.get(run.agent_id)
    else:
        definition = pinned_definition(run.agent_id, run.definition_digest, content_json)
    guardrails, originals = sealing_guardrails(journal.settings, definition.guardrails)
    return guardrails.input(content), originals


def edit_queued(
    journal: Journal, registry: AgentRegistry, principal: Principal, thread_id: str, run_id: str, content: str
) -> CommitResult:
    """Replace the text of a message that waits in a thread.

    Raises:
        RunUnknown, FORBIDDEN, MESSAGE_TAKEN: see ``bus.journal.mailbox.queue``.
        INPUT_EMPTY, INPUT_TOO_LARGE, BadRequest, INPUT_BLOCKED: the text cannot be used.
    """
    text, originals = guarded_text(journal, registry, principal, run_id, content)
    return journal.clients.edit_queued(principal, thread_id, run_id, text, originals)
