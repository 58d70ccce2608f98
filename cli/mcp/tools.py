"""What `mcp tools` lists: the tools that servers have now, as agents get them, beside the pinned definitions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import click

from agents.compatibility import try_load
from agents.process import current_process
from agents.runner import Runner
from agents.tools.mcp import PREFIX
from agents.tools.mcp.catalogue.listed import ServerTool, from_json
from agents.tools.mcp.catalogue.lists import tools_read, where_sought
from agents.tools.mcp.catalogue.manifest import differences
from agents.tools.mcp.connection.faults import with_remedy
from agents.tools.mcp.sdk_logging import silence_sdk_logging
from agents.tools.mcp.server_session import MCPClientManager, listing
from agents.tools.mcp.tool_builder import build_mcp_tool
from bus.journal import Journal
from cli.doctor.mcp_servers import LIST_S
from cli.output.quoted import fit
from config.definitions.agent import AgentDefinition
from config.definitions.loading import definition_of
from config.definitions.mcp.server import McpServerDefinition
from config.definitions.schemas.json_schema import SchemaRefused
from config.errors import BadRequest, CallboardError
from config.text.visible import visible

MAX_DESCRIPTION_CHARS = 80
HINTS = {
    "readOnlyHint": "read-only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open-world",
}
"""The hints of the protocol, as the terminal names them."""

Listed = tuple[dict[str, ServerTool], dict[str, str]]
Users = Mapping[tuple[str, str], list[tuple[str, list[str]]]]
"""A server and a tool's name there -> each name that agents know it by, with these agents."""


async def ask_all(servers: Sequence[McpServerDefinition], tenant: str) -> list[Listed | str]:
    """Return what each server lists, or why it does not."""
    silence_sdk_logging()
    manager = MCPClientManager(tenant)
    try:
        return list(await asyncio.gather(*(_ask(manager, server) for server in servers)))
    finally:
        await manager.cleanup()


async def _ask(manager: MCPClientManager, server: McpServerDefinition) -> Listed | str:
    try:
        async with asyncio.timeout(server.start_s + LIST_S):
            return await listing(await manager.start_server(server))
    except CallboardError as error:
        return with_remedy(error)
    except TimeoutError:
        return f"the MCP server {server.name} did not list its tools within {LIST_S:g} seconds"


def users_of(journal: Journal, agent_ids: Sequence[str]) -> Users:
    """Return the names by which agents know the tools of MCP servers, as workers have loaded them."""
    users: dict[tuple[str, str], list[tuple[str, list[str]]]] = {}
    for row in journal.stores.tools.listed(agent_ids):
        if row["mcp"]:
            key = row["mcp"]["server"], row["mcp"]["tool"]
            users.setdefault(key, []).append((row["name"], row["agents"]))
    return users


def tool_rows(server: McpServerDefinition, listed: Listed, journal: Journal, users: Users) -> list[dict[str, Any]]:
    """Return a server's included tools by name, as JSON data; also those that it should have and has not."""
    usable, refused = listed
    pinned = journal.stores.mcp_manifests.pinned(server.name)
    rows = [_row(server, usable[name], pinned.get(name), users) for name in usable if server.includes(name)]
    rows += [
        {"server": server.name, "tool": name[:200], "state": "left_out", "reason": why}
        for name, why in refused.items()
        if server.includes(name)
    ]
    missing = sorted({*(server.included_tools or ()), *server.tools, *pinned} - usable.keys() - refused.keys())
    gone = f"the server does not have it{where_sought(len(usable) + len(refused))}"
    rows += [
        {"server": server.name, "tool": name, "state": "gone", "reason": gone}
        for name in missing
        if server.includes(name)
    ]
    return sorted(rows, key=lambda row: str(row["tool"]))


def _row(server: McpServerDefinition, now: ServerTool, pinned: str | None, users: Users) -> dict[str, Any]:
    accepted = now if pinned is None else from_json(pinned)
    row: dict[str, Any] = {
        "server": server.name,
        "tool": now.name,
        "state": "new" if pinned is None else "pinned" if accepted.digest == now.digest else "changed",
        "manifest": accepted.digest,
        "hints": dict(now.annotations),
        "hints_trusted": server.trusted_hints,
        "used_as": [{"name": name, "agents": agents} for name, agents in users.get((server.name, now.name), [])],
    }
    if row["state"] == "changed":
        row["differences"] = [difference._asdict() for difference in differences(accepted, now)]
    try:
        tool = build_mcp_tool(server, accepted)
    except SchemaRefused as error:
        return row | {"state": "left_out", "reason": str(error)}
    facts = {"name": tool.name, "effect": str(tool.effect), "timeout_s": tool.timeout_s}
    return row | facts | {"description": tool.description, "input_schema": tool.parameters}


def print_tools(server: McpServerDefinition, rows: Sequence[Mapping[str, Any]], all_tools: int) -> None:
    """Print a server's tools, and how the definitions differ that have changed."""
    usable = [row for row in rows if row["state"] not in ("left_out", "gone")]
    trust = "trusted" if server.trusted_hints else "not trusted"
    of_all = f"{len(usable)} of {tools_read(all_tools)}"
    click.secho(f"{server.name}: {of_all} may be used; its hints are {trust}", bold=True)
    width = max((len(row["name"]) for row in usable), default=0)
    for row in rows:
        if row in usable:
            _print_tool(row, width)
        else:
            left_out = "left out, " if row["state"] == "left_out" else ""
            click.secho(f"  {visible(row['tool'])[:80]}: {left_out}{visible(row['reason'])}", fg="yellow")


def _print_tool(row: Mapping[str, Any], width: int) -> None:
    summary = fit(row["description"].split("\n")[0], MAX_DESCRIPTION_CHARS)
    click.echo(f"  {row['name']:<{width}}  {row['effect']:<10}  {summary}{_notes(row)}")
    if row["state"] != "changed":
        return
    click.secho("    the server has changed it; agents use the definition before", fg="yellow")
    for difference in row["differences"]:
        click.echo(f"    {difference['field']}")
        click.secho(_indented("- ", difference["before"]), fg="red")
        click.secho(_indented("+ ", difference["now"]), fg="green")
    command = f"./callboard mcp call {row['server']} {row['tool']} JSON"
    click.echo(f"    the next call asks whether to accept it, such as: {command}")


def _notes(row: Mapping[str, Any]) -> str:
    """Return what the server hints, and which agents use the tool, by another name where they do."""
    hints = [word for hint, word in HINTS.items() if row["hints"].get(hint) is True]
    users = [
        ", ".join(user["agents"]) + (f" as {user['name']}" if user["name"] != row["name"] else "")
        for user in row["used_as"]
    ]
    notes = ([f"says: {', '.join(hints)}"] if hints else []) + users
    return f"  ({'; '.join(notes)})" if notes else ""


def _indented(mark: str, text: str) -> str:
    return "\n".join(f"    {mark}{line}" for line in text.split("\n"))


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
