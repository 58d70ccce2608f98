"""Agents: the usable ones, and the problems of the others; and their tools, from the catalogue that workers write."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from flask import Blueprint, Response
from pydantic import Field

from agents.errors import WORKFLOW_MISSED, AgentUnknown
from agents.models.auto import resolve_model
from agents.tools.mcp.server_states import fleet_states
from bus.identity.access import may_start, sees_agent
from config.definitions.errors import DefinitionInvalid
from config.ids import canonical_digest
from web.api.answers import answer
from web.auth.authentication import current_principal
from web.calls.call import call
from web.calls.fields import Answer, Input, Maybe
from web.calls.parameters import Conditional
from web.process import current_process
from web.schemas.paths import AgentId
from web.schemas.tool import SeedTool, SeedTools, ToolCatalogue

if TYPE_CHECKING:
    from agents.registry import AgentRegistry
    from config.definitions.agent import AgentDefinition


class AgentSummary(Answer):
    """An agent that can be started."""

    id: str
    name: str
    description: str
    model: str
    """The model that the next run gets."""
    is_demo: bool
    """Whether its model is scripted and needs no key."""
    starters: list[str]
    """Messages to begin with."""
    tools: list[str]
    has_output_schema: bool
    """Whether its answers are JSON of a schema."""
    version: Maybe[int] = None
    """The version that serves in place of what its file says; absent: what its file says serves."""
    problem: Maybe[str] = None
    """Where its file cannot be used, and the last version that could serves: that, as a sentence."""


class BrokenAgent(Answer):
    """A definition of an agent or a workflow that cannot be used."""

    id: str
    code: str
    detail: str
    """What is wrong, as a sentence with the remedy."""


class AgentList(Answer):
    """The agents that can be started, and the definitions that cannot be used."""

    agents: list[AgentSummary]
    problems: list[BrokenAgent]


agents = Blueprint("agents", __name__)


class WhichAgents(Input):
    """Which agents are listed."""

    unlisted: Annotated[bool, Field(strict=False)] = False
    """Whether those with ``listed: false`` are in the list too."""


@agents.get("/v1/agents")
@call({200: AgentList})
def many(query: WhichAgents) -> Response:
    """List the agents that the caller may start, by name; administrators of the tenant ``default`` also see problems.

    No tool is imported.
    """
    from web.doctor.agents import refused_tool  # with all that knows tools, which the first request needs

    principal, registry = current_principal(), current_process().runner.registry
    default = current_process().settings.default_agent
    database = current_process().journal.database
    usable, problems = [], problems_of(registry, of_workflows=False)
    for definition in registry.usable():
        if definition.is_workflow:
            continue
        if problem := refused_tool(definition, current_process().settings, database):
            problems.append(problem._asdict())
        elif not (definition.listed or query.unlisted or definition.id == default):
            continue
        elif sees_agent(principal, definition) and may_start(principal, definition):
            usable.append(agent_data(definition))
    usable.sort(key=lambda agent: agent["name"].casefold())
    return answer({"agents": usable, "problems": problems if registry.shows_problems(principal) else []})


def problems_of(registry: AgentRegistry, *, of_workflows: bool) -> list[dict[str, Any]]:
    """Return the files of agents, or those of workflows, that cannot be used; for those who see problems."""
    from web.doctor.agents import broken_files

    return [broken._asdict() for broken in broken_files(registry, of_workflows=of_workflows)]


@agents.get("/v1/agents/<agent_id>")
@call({200: AgentSummary}, problems=(AgentUnknown, DefinitionInvalid, WORKFLOW_MISSED))
def one(agent_id: AgentId) -> Response:
    """Return one agent; one that cannot be used is 422, for those who see problems."""
    definition = current_process().runner.registry.get_for(current_principal(), agent_id)
    if definition.is_workflow:
        raise WORKFLOW_MISSED(
            problem=f"'{definition.id}' is a workflow; `GET /v1/workflows/{definition.id}` returns it."
        )
    return answer(agent_data(definition))


def agent_data(agent: AgentDefinition) -> dict[str, Any]:
    """Return an agent's public fields; the system prompt is not among them."""
    model = resolve_model(agent.model, os.environ)
    return {
        "id": agent.id,
        "name": agent.name,
        "description": agent.description,
        "model": model,
        "is_demo": model.startswith("demo/"),
        "starters": list(agent.starters),
        "tools": list(agent.tools),
        "has_output_schema": agent.output_schema is not None,
        **({"version": agent.version} if agent.version is not None else {}),
        **({"problem": BROKEN.format(version=agent.version)} if agent.problem else {}),
    }


BROKEN = "Its file cannot be used, so version {version} serves; `./callboard agents` says what is wrong."
"""For each principal that sees the agent; the problem itself names files, which are for administrators."""


tools = Blueprint("tools", __name__)


@tools.get("/v1/tools", endpoint="many")
@call({200: ToolCatalogue, 304: None})
def tool_catalogue(headers: Conditional) -> Response:
    """List the tools of the agents, as the living workers have loaded them.

    While no worker is alive, the tools of the last ones are listed.
    """
    tool_list = _listed_tools()
    changed = _changed() if any("mcp" in entry for entry in tool_list) else set()
    for tool in tool_list:
        if origin := tool.get("mcp"):
            origin["changed"] = (origin["server"], origin["tool"]) in changed
    return headers.answer({"tools": tool_list, "digest": canonical_digest([entry["digest"] for entry in tool_list])})


@tools.get("/tools")
@call({200: SeedTools, 304: None})
def seed(headers: Conditional) -> Response:
    """List the tools as the first orchestrator design shows them, one version of each name."""
    by_name = {tool["name"]: tool for tool in _listed_tools()}
    seed_tools = [{name: tool[name] for name in SeedTool.model_fields} for tool in by_name.values()]
    return headers.answer({"tools": seed_tools, "digest": canonical_digest(seed_tools)})


def _changed() -> set[tuple[str, str]]:
    """Return the server and the name of each tool whose definition is not the accepted one, as workers see it."""
    states = fleet_states(current_process().journal.stores.workers.alive())
    return {(server, tool) for server, state in states.items() for tool in state.get("changed", ())}


def _listed_tools() -> list[dict[str, Any]]:
    """Return the tools of the agents that the caller sees, without nulls."""
    process = current_process()
    agent_ids = [agent.id for agent in process.runner.registry.seen_by(current_principal())]
    return [_without_nulls(tool) for tool in process.journal.stores.tools.listed(agent_ids)]


def _without_nulls(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in tool.items() if value is not None}
