"""Routing by rule and by capability: a message becomes the call of an agent, and no model is asked."""

from __future__ import annotations

from agents.delegation.agent_tool import MESSAGE, PREFIX, tool_name
from agents.registry import AgentRegistry
from bus.journal.clients import NewCall
from config.definitions.agent import AgentDefinition
from config.definitions.router import Route
from config.errors import CallboardError
from config.identity.principal import Principal


def routed_call(
    definition: AgentDefinition, text: str, registry: AgentRegistry, principal: Principal
) -> NewCall | None:
    """Return the call by which an agent's routes hand a message over; None where its own model decides.

    The run is one of kind ``tool`` then: this one call, whose result is its output.
    """
    fitting = (_agent_of(route, definition, registry, principal) for route in definition.router if route.takes(text))
    agent_id = next((name for name in fitting if name is not None), None)
    return NewCall(name=tool_name(agent_id), arguments={MESSAGE: text}) if agent_id is not None else None


def _agent_of(route: Route, definition: AgentDefinition, registry: AgentRegistry, principal: Principal) -> str | None:
    """Return the route's agent: the one that it names, or the first tool that the principal may start and can do it."""
    if route.capability is None:
        return route.agent
    agents = (line.removeprefix(PREFIX) for line in definition.tools if line.startswith(PREFIX))
    return next((name for name in agents if _has(registry, principal, name, route.capability)), None)


def _has(registry: AgentRegistry, principal: Principal, agent_id: str, capability: str) -> bool:
    """Return whether an agent's file has this tag, or names this tool by its whole line or the end of it."""
    try:
        agent = registry.startable(principal, agent_id)
    except CallboardError:  # the next one may do
        return False
    names = {agent.category_tag, *agent.tools, *(line.replace("/", ":").rpartition(":")[2] for line in agent.tools)}
    return capability in names
