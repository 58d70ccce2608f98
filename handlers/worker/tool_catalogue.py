"""The tools of a worker's agents, for the catalogue that other processes read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from agents.compatibility import LoadedAgent
from agents.tools.tool import Tool
from bus.journal.stores import LoadedTool, ToolMetadata
from config.definitions.agent import AgentDefinition


def loaded_tools(loaded: Iterable[LoadedAgent]) -> list[LoadedTool]:
    """Return each tool as the agents use it, with their overrides, once for all agents that use it alike."""
    agents: dict[str, list[str]] = defaultdict(list)
    by_digest: dict[str, tuple[AgentDefinition, Tool]] = {}
    for definition, tools in loaded:
        for tool in tools.values():
            digest = _described(definition, tool, ()).digest
            agents[digest].append(definition.id)
            by_digest[digest] = definition, tool
    return [_described(definition, tool, agents[digest]) for digest, (definition, tool) in by_digest.items()]


def _described(definition: AgentDefinition, tool: Tool, agents: Iterable[str]) -> LoadedTool:
    return LoadedTool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.parameters,
        effect=str(tool.effect),
        timeout_s=float(tool.timeout_s or definition.timeouts.tool_s),
        agents=tuple(agents),
        metadata=_metadata(tool),
    )


def _metadata(tool: Tool) -> ToolMetadata:
    """Return what callers may know of a tool: of its secrets the names alone."""
    return ToolMetadata(
        title=tool.title or None,
        version=tool.version,
        maintainer=tool.maintainer,
        kind=None if tool.kind is None else str(tool.kind),
        classification=str(tool.classification),
        roles=tuple(sorted(tool.roles)),
        output_schema=tool.output_schema,
        hosts=tool.hosts,
        secrets=tuple(sorted(tool.secrets)),
        labels=tuple(sorted(tool.labels | tool.result_labels)),
        needs_approval=tool.needs_approval,
        mcp=_origin(tool),
    )


def _origin(tool: Tool) -> dict[str, str] | None:
    if tool.mcp is None:
        return None
    server, name = tool.mcp
    return {"server": server, "tool": name, "manifest": tool.implementation or ""}
