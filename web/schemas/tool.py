"""Tools as workers have loaded them."""

from __future__ import annotations

from typing import Any

from config.effects import Effect
from web.calls.fields import Answer


class SeedTool(Answer):
    """A tool, as the first orchestrator design shows it."""

    name: str
    description: str
    input_schema: dict[str, Any]
    """JSON Schema of the arguments."""


class SeedTools(Answer):
    """The tools that agents can use."""

    tools: list[SeedTool]


class CatalogueTool(SeedTool):
    """A tool as agents use it."""

    effect: Effect
    """What a call changes, and so what happens after an interruption."""
    timeout_s: float
    """Seconds that a call may take."""
    digest: str
    """SHA-256 of the other fields but ``agents``: two versions of a tool during an update have two."""
    agents: list[str]
    """The agents that use it like this."""


class ToolCatalogue(Answer):
    """The tools that agents can use, by name."""

    tools: list[CatalogueTool]
