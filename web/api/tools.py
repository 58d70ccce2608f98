"""Tools: what the agents can use, from the catalogue that workers write; no tool is imported here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Blueprint, Response

from agents.tools.mcp.server_states import fleet_states
from config.ids import canonical_digest
from web.auth.authentication import current_principal
from web.calls.call import call
from web.calls.parameters import Conditional
from web.process import current_process
from web.schemas.tool import SeedTool, SeedTools, ToolCatalogue

tools = Blueprint("tools", __name__)


@tools.get("/v1/tools")
@call({200: ToolCatalogue, 304: None})
def many(headers: Conditional) -> Response:
    """List the tools of the agents, as the living workers have loaded them.

    While no worker is alive, the tools of the last ones are listed.
    """
    tool_list = _listed()
    changed = _changed() if any("mcp" in entry for entry in tool_list) else set()
    for tool in tool_list:
        if origin := tool.get("mcp"):
            origin["changed"] = (origin["server"], origin["tool"]) in changed
    return headers.answer({"tools": tool_list, "digest": canonical_digest([entry["digest"] for entry in tool_list])})


@tools.get("/tools")
@call({200: SeedTools, 304: None})
def seed(headers: Conditional) -> Response:
    """List the tools as the first orchestrator design shows them, one version of each name."""
    by_name = {tool["name"]: tool for tool in _listed()}
    seed_tools = [{name: tool[name] for name in SeedTool.model_fields} for tool in by_name.values()]
    return headers.answer({"tools": seed_tools, "digest": canonical_digest(seed_tools)})


def _changed() -> set[tuple[str, str]]:
    """Return the server and the name of each tool whose definition is not the accepted one, as workers see it."""
    states = fleet_states(current_process().journal.stores.workers.alive())
    return {(server, tool) for server, state in states.items() for tool in state.get("changed", ())}


def _listed() -> list[dict[str, Any]]:
    """Return the tools of the agents that the caller sees, without nulls."""
    process = current_process()
    agents = [agent.id for agent in process.runner.registry.seen_by(current_principal())]
    return [_without_nulls(tool) for tool in process.journal.stores.tools.listed(agents)]


def _without_nulls(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in tool.items() if value is not None}
