"""Checks of the webhooks that others send: their files, their secrets, and what they start."""

from __future__ import annotations

from agents.registry import AgentRegistry
from bus.identity.access import may_start, sees_agent
from cli.doctor import Verdicts, fail, ok
from config.definitions.webhooks.definition import WebhookDefinition, read_webhooks
from config.errors import CallboardError
from config.settings import Settings


def check_webhooks(settings: Settings) -> Verdicts:
    """Yield what is wrong with each webhook; nothing where there is none."""
    webhooks, broken = read_webhooks(settings.webhooks_folders)
    for error in broken:
        yield fail(str(error))
    registry = AgentRegistry(settings.agent_folders)
    for webhook in webhooks.values():
        problem = problem_of(webhook, registry)
        yield ok(f"{webhook.name}: {does(webhook)}") if problem is None else fail(problem)


def problem_of(webhook: WebhookDefinition, registry: AgentRegistry) -> str | None:
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
