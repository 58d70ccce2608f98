"""Agents: what is configured, and what of it cannot be used."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flask import Blueprint, Response

from agents.models.auto import resolve_model
from config.errors import DefinitionInvalid
from web.api.answers import answer
from web.process import here

if TYPE_CHECKING:
    from config.definitions import AgentDefinition

agents = Blueprint("agents", __name__)


@agents.get("/v1/agents")
def many() -> Response:
    """Return every agent that can be used, and a problem for each file that cannot."""
    found = here().runner.registry.all()
    return answer(
        {
            "agents": [shown(agent) for agent in found if not isinstance(agent, DefinitionInvalid)],
            "problems": [_problem(wrong) for wrong in found if isinstance(wrong, DefinitionInvalid)],
        }
    )


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


def _problem(wrong: DefinitionInvalid) -> dict[str, Any]:
    return {"id": Path(str(wrong.facts["file"])).stem, "code": wrong.code, "detail": str(wrong)}
