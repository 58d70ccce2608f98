"""What a policy of this deployment may name: the tools that are registered and those of the agents, and the agents."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from agents.catalogue import TOOLS, find_tool, tools_of
from agents.governance.policy.checks import KnownTool, Vocabulary
from agents.registry import AgentRegistry
from agents.tools.tool import Tool
from config.definitions.agent import AgentDefinition
from config.errors import CallboardError
from config.settings import Settings

_COMBINED = ("$ref", "allOf", "anyOf", "oneOf", "patternProperties")
"""Keywords by which a schema may have arguments that its ``properties`` do not list."""


def vocabulary_of(settings: Settings) -> Vocabulary:
    """Return what there is. MCP servers are asked for their tools; what cannot be built is left out."""
    tools: list[Tool] = []
    for name in TOOLS.names(settings):
        with suppress(CallboardError):
            tools.append(find_tool(name, settings))
    definitions = [
        agent_definition
        for agent_definition in AgentRegistry(settings.agent_folders).all()
        if isinstance(agent_definition, AgentDefinition)
    ]
    unread: list[str] = []
    for definition in definitions:
        try:
            tools += tools_of(definition, settings).values()
        except CallboardError:
            unread.append(definition.id)
    entries = dict.fromkeys(_known(tool) for tool in tools)
    agents = frozenset(definition.id for definition in definitions)
    return Vocabulary(tools=tuple(entries), agents=agents, unread=tuple(unread))


def _known(tool: Tool) -> KnownTool:
    labels = tool.labels | tool.result_labels
    arguments = arguments_in(tool.parameters)
    return KnownTool(name=tool.name, identity=tool.identity, arguments=arguments, labels=labels)


def arguments_in(parameters: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the names of the arguments that a schema has; None where it leaves them open."""
    properties, more = parameters.get("properties") or {}, parameters.get("additionalProperties", True)
    is_open = any(keyword in parameters for keyword in _COMBINED) or isinstance(more, dict)
    return None if is_open or (more and not properties) else frozenset(properties)
