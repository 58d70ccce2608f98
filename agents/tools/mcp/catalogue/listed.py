"""A server's tool as the server lists it, in a form that can be kept, compared and shown."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from agents.tools.mcp.catalogue.lists import MALFORMED, MAX_PLACE
from config.definitions.mcp.server import TOOL_NAME
from config.ids import canonical_digest
from config.text.visible import visible

if TYPE_CHECKING:
    from mcp.types import Tool

log = logging.getLogger(__name__)

EFFECT, TIMEOUT = "callboard/effect", "callboard/timeout_s"
"""Members of a tool's ``_meta``, with its effect class and the seconds that a call may take, where it is served by
``callboard_client.tools``."""
MAX_BYTES = 256 * 1024
"""Largest accepted definition of a tool, as JSON."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerTool:
    """What a server says of one of its tools."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None
    annotations: Mapping[str, Any]
    """The server's hints, by their names in the protocol: ``readOnlyHint``, ``idempotentHint``, and so on; also
    ``EFFECT`` and ``TIMEOUT``."""

    @property
    def content(self) -> dict[str, Any]:
        """All of it, as JSON data."""
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
            "annotations": self.annotations,
        }

    @property
    def json(self) -> str:
        """The content as JSON text."""
        return orjson.dumps(self.content).decode()

    @property
    def digest(self) -> str:
        """SHA-256 of the content: another one is another tool."""
        return canonical_digest(self.content)


def from_json(text: str) -> ServerTool:
    """Return the tool whose content was stored as JSON."""
    return ServerTool(**orjson.loads(text))


def listed(tools: list[Tool], server: str) -> dict[str, ServerTool]:
    """Return the usable tools of a server by name; a name that is none, or is there twice, is left out and logged."""
    server_tools, refused = sorted_out(tools)
    if refused:
        reasons = "; ".join(sorted(f"{visible(name[:80])}: {why}" for name, why in refused.items()))
        log.warning("the MCP server %s has tools that cannot be used: %s", server, reasons[:1000])
    return server_tools


def sorted_out(tools: list[Tool]) -> tuple[dict[str, ServerTool], dict[str, str]]:
    """Return the usable tools of a server by name, and of the others why they are none."""
    by_name: dict[str, ServerTool] = {}
    refused: dict[str, str] = {}
    for tool in tools:
        server_tool = _usable(tool)
        if isinstance(server_tool, str):
            refused[tool.name] = server_tool
        elif server_tool.name in by_name:
            refused[tool.name] = "the server lists it twice"
        else:
            by_name[server_tool.name] = server_tool
    return {name: tool for name, tool in by_name.items() if name not in refused}, refused


def _usable(tool: Tool) -> ServerTool | str:
    """Return the tool, or why it cannot be used."""
    if not TOOL_NAME.fullmatch(tool.name):
        return "this is no name by the protocol"
    if tool.meta and MALFORMED in tool.meta:
        location = visible(str(tool.meta[MALFORMED])[:MAX_PLACE])
        return f"its definition is none by the protocol{', at ' if location else ''}{location}"
    hints = tool.annotations.model_dump(by_alias=True, exclude_none=True, mode="json") if tool.annotations else {}
    hints |= {name: tool.meta[name] for name in (EFFECT, TIMEOUT) if tool.meta and name in tool.meta}
    server_tool = ServerTool(
        name=tool.name,
        description=tool.description or tool.title or "",
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=hints,
    )
    try:
        size = len(orjson.dumps(server_tool.content))
    except TypeError:  # half a surrogate pair, or a number beyond 64 bits
        return "its definition is no JSON that can be kept"
    return server_tool if size <= MAX_BYTES else f"its definition is larger than {MAX_BYTES:,} bytes"
