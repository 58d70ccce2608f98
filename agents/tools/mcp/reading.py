"""What the tools for resources and prompts have in common: they read, and what they return is a server's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agents.tools.mcp.tool_builder import labels_of
from agents.tools.tool import Tool
from config.definitions.mcp_names import sent_name
from config.definitions.mcp_server import McpReadFields, McpServerDefinition
from config.effects import Effect
from config.visible import visible

MAX_LISTED = 200
"""Items of a list that one call returns."""
MAX_FACT = 1000
"""Characters of a name or description in a list."""


def reading_tool(
    server: McpServerDefinition,
    said: McpReadFields,
    name: str,
    description: str,
    parameters: Mapping[str, Any],
    function: Callable[..., Any],
) -> Tool:
    """Return a ``pure`` tool that is named after its server; ``said`` is what the server's file says of it."""
    return Tool(
        name=sent_name(f"{server.name}_{name}"),
        description=description,
        parameters=parameters,
        function=function,
        effect=Effect.PURE,
        timeout_s=said.timeout_s,
        confirm=said.confirm,
        roles=said.roles,
        classification=said.classification,
        labels=labels_of(said.labels),
    )


def facts_of(said: Mapping[str, str | None]) -> dict[str, Any]:
    """Return what a server says of a thing, without what is missing; a URI and a URI template stay whole."""
    whole = ("uri", "uri_template")
    return {name: visible(text if name in whole else text[:MAX_FACT]) for name, text in said.items() if text}


def found_in(items: Sequence[dict[str, Any]], search: str, most: int) -> dict[str, Any]:
    """Return the items with a text in them, and how many are left out."""
    wanted = search.lower()
    fitting = [one for one in items if wanted in " ".join(str(value) for value in one.values()).lower()]
    note = {"note": f"{len(fitting) - most:,} more; search for a text to see them"} if len(fitting) > most else {}
    return {"found": list(fitting[:most]), **note}
