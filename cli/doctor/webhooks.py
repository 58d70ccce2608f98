"""What is wrong with a webhook that others send, beyond its file: its secret, and what it starts."""

from __future__ import annotations

from agents.registry import AgentRegistry
from bus.identity.access import may_start, sees_agent
from config.definitions.webhooks.definition import WebhookDefinition
from config.errors import CallboardError


def why_unusable(webhook: WebhookDefinition, registry: AgentRegistry) -> str | None:
    """Return why every delivery of a webhook would be refused, as a sentence; None where nothing is known."""
    start = webhook.start
    try:
        webhook.keys()
        if start is None:
            return None
        definition = registry.get(str(start.agent or start.workflow))
    except CallboardError as error:
        return str(error) if str(error).startswith(webhook.file) else f"{webhook.file}: {error}"
    kind = "workflow" if definition.is_workflow else "agent"
    if (start.workflow is not None) != definition.is_workflow:
        return f"{webhook.file}: start: '{definition.id}' is of the kind {kind}; write `{kind}: {definition.id}`."
    if not sees_agent(webhook.who, definition) or not may_start(webhook.who, definition):
        whose = f"'{webhook.who.id}' of tenant '{webhook.who.tenant}'"
        return f"{webhook.file}: start: the `access` of '{definition.id}' does not let {whose} start it; add it there."
    return None


def does(webhook: WebhookDefinition) -> str:
    """Return what a webhook's deliveries do, in a few words."""
    start = webhook.start
    if start is None:
        return "gives a signal"
    return f"starts agent {start.agent}" if start.agent is not None else f"starts workflow {start.workflow}"
