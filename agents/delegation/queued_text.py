"""Another text for a message that waits in a thread: it passes the guardrails, and no route may take it."""

from __future__ import annotations

from typing import Any, Literal

from agents.delegation.router import routed_call
from agents.mailbox.inputs import definition_of_run, guarded
from agents.prompt import check_objective
from agents.registry import AgentRegistry, principal_of
from bus.journal import Journal
from bus.journal.clients import AGENT, CommitResult
from bus.journal.errors import CONTROL_REFUSED
from config.identity.principal import Principal

IS_ROUTED = (
    "a route of its agent takes this text, and it was accepted for the agent's model; remove it and send it anew"
)


def edit_queued(
    journal: Journal,
    registry: AgentRegistry,
    principal: Principal,
    thread_id: str,
    run_id: str,
    content: str,
    place: Literal["first", "now"] | None = None,
) -> CommitResult:
    """Replace the text of a message that waits in a thread, and move it where a place is named.

    Routes are judged by what the run's own principal may start, also where another principal edits.

    Raises:
        RunUnknown, FORBIDDEN, MESSAGE_TAKEN: see ``bus.journal.mailbox.queue``.
        CONTROL_REFUSED: the run is one call of a tool, or a route of its agent takes the new text.
        INPUT_EMPTY, INPUT_TOO_LARGE, BadRequest, INPUT_BLOCKED: the text cannot be used.
    """
    check_objective(content, journal.settings.max_input_chars)
    run = journal.readers.runs.row(principal, run_id)
    definition = definition_of_run(journal, registry, run)
    text, originals = guarded(journal, definition, content)
    is_message = run.kind == AGENT and run.status == "queued"
    if is_message and routed_call(definition, text, registry, principal_of(run)) is not None:
        raise CONTROL_REFUSED(request="for another text", problem=IS_ROUTED)
    changes: Any = {"content": text, "originals": originals, "place": place}
    return journal.clients.edit_queued(principal, thread_id, run_id, **changes)
