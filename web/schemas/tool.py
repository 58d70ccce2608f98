"""Tools as workers have loaded them."""

from __future__ import annotations

from typing import Any

from config.effects import CapabilityKind, Classification, Effect
from web.calls.fields import Answer, Maybe


class SeedTool(Answer):
    """A tool, as the first orchestrator design shows it."""

    name: str
    description: str
    input_schema: dict[str, Any]
    """JSON Schema of the arguments."""


class SeedTools(Answer):
    """The tools that agents can use."""

    tools: list[SeedTool]
    digest: str
    """SHA-256 of the list: it changes when a tool does."""


class McpOrigin(Answer):
    """Where a tool of an MCP server comes from."""

    server: str
    tool: str
    """Its name at the server."""
    manifest: str
    """SHA-256 of the definition that agents use: name, description, schemas and hints."""
    changed: bool
    """Whether the server has another definition now, which no person has accepted."""


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
    title: Maybe[str] = None
    """The sentence that a call is shown as, with ``{argument}`` in it."""
    version: str
    """By its maintainer's count; an approval holds for one version."""
    maintainer: str
    """Who answers for it; empty where it does not say."""
    kind: Maybe[CapabilityKind] = None
    classification: Classification
    """Of its data."""
    roles: list[str]
    """The roles of which a run's principal needs one to call it; none: all principals may."""
    output_schema: Maybe[dict[str, Any]] = None
    """JSON Schema of the result; absent: any is accepted."""
    hosts: Maybe[list[str]] = None
    """The hosts that its calls may connect to; absent: no limit of its own."""
    secrets: list[str]
    """The names of the secrets that it uses."""
    labels: list[str]
    """What its result is, for policies."""
    needs_approval: bool
    """Whether a person approves each call first."""
    mcp: Maybe[McpOrigin] = None
    """The MCP server that has it; absent for other tools."""


class ToolCatalogue(Answer):
    """The tools that agents can use, by name."""

    tools: list[CatalogueTool]
    digest: str
    """SHA-256 of the digests of the list: it changes when a tool does."""
