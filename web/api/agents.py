"""Agents: what is configured, and what of it cannot be used."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flask import Blueprint, Response

from agents.models.auto import resolve_model
from config.dotted_path import NotImportable, require_allowed
from config.errors import DefinitionInvalid, ToolUnknown
from web.api.answers import answer
from web.process import here

if TYPE_CHECKING:
    from config.definitions import AgentDefinition

agents = Blueprint("agents", __name__)


@agents.get("/v1/agents")
def many() -> Response:
    """Return every agent that can be used, and a problem for each that cannot, as far as is known without its code."""
    usable, problems = [], []
    for found in here().runner.registry.all():
        problem = _problem(found) if isinstance(found, DefinitionInvalid) else _refused_tool(found)
        if problem is not None:
            problems.append(problem)
        elif not isinstance(found, DefinitionInvalid):
            usable.append(shown(found))
    return answer({"agents": usable, "problems": problems})


@agents.get("/v1/agents/<agent_id>")
def one(agent_id: str) -> Response:
    """Return one agent."""
    return answer(shown(here().runner.registry.get(agent_id)))


def shown(agent: AgentDefinition) -> dict[str, Any]:
    """Return what a chooser needs to know; the system prompt is not a client's business."""
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
    }


def _refused_tool(agent: AgentDefinition) -> dict[str, Any] | None:
    """Return what is wrong where the settings allow a tool's module to nobody; no tool is imported in this process."""
    for path in agent.tools:
        module, colon, _ = path.partition(":")
        try:
            if colon:
                require_allowed(module, here().settings)
        except NotImportable as wrong:
            return {"id": agent.id, "code": ToolUnknown.code, "detail": f"{agent.file}: tool '{path}' {wrong}"}
    return None


def _problem(wrong: DefinitionInvalid) -> dict[str, Any]:
    return {"id": Path(str(wrong.facts["file"])).stem, "code": wrong.code, "detail": str(wrong)}
