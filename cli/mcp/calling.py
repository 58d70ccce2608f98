"""As whose tool `mcp call` calls a server's tool: an agent's that has it, or of an agent that no file has."""

from __future__ import annotations

from agents.compatibility import try_load
from agents.process import current_process
from agents.runner import Runner
from agents.tools.mcp import PREFIX
from config.definitions.agent import AgentDefinition, definition_of
from config.errors import BadRequest, CallboardError

Chosen = tuple[str, AgentDefinition]
"""A tool's name for an agent, and the agent."""


def chosen_tool(runner: Runner, server: str, tool: str, agent_id: str | None) -> Chosen:
    """Return the agent whose overrides hold for the call: the default agent before the others that have the tool.

    Where no agent has it, it is one with this tool alone, so that a server can be tried before any agent uses it.

    Raises:
        ToolUnknown: the server has no such tool, or it cannot be used.
        BadRequest: the named agent does not have it.
        AgentUnknown, AGENT_FORBIDDEN, DefinitionInvalid: the named agent cannot be used.
    """
    if agent_id is not None:
        named = runner.registry.startable(runner.principal, agent_id)
        tool_found = _tool_of(named, server, tool)
        if tool_found is None:
            line = f"{PREFIX}{server}/{tool}"
            raise BadRequest(
                f"the agent '{agent_id}' does not have '{line}'; name it in its `tools:`, or omit --agent."
            )
        return tool_found
    default = runner.settings.default_agent
    for agent in sorted(
        runner.registry.seen_by(runner.principal), key=lambda definition: (definition.id != default, definition.id)
    ):
        tool_found = _tool_of(agent, server, tool)
        if tool_found is not None:
            return tool_found
    return _of_no_agent(server, tool)


def _tool_of(agent: AgentDefinition, server: str, tool: str) -> Chosen | None:
    lines = (f"{PREFIX}{server}", f"{PREFIX}{server}/{tool}")
    if not any(line in agent.tools for line in lines):
        return None
    loaded = try_load(current_process(), agent.id)
    if isinstance(loaded, CallboardError):
        raise loaded
    return next(
        ((tool_loaded.name, agent) for tool_loaded in loaded[1].values() if tool_loaded.mcp == (server, tool)), None
    )


def _of_no_agent(server: str, tool: str) -> Chosen:
    agent = definition_of(
        f"mcp.{server}",
        {
            "name": f"MCP server {server}",
            "model": "auto",
            "system_prompt": "Calls of the terminal.",
            "tools": [f"{PREFIX}{server}/{tool}"],
        },
    )
    from agents.catalogue import tools_of

    (name,) = tools_of(agent, current_process().settings)
    return name, agent
