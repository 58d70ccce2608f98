"""The two tools with which an agent lists and reads those resources of a server that its file names.

Links in what a server returns are shown and never followed here.
"""

from __future__ import annotations

from typing import Any, cast

from mcp import ClientSession
from mcp.types import (
    InputRequiredResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from agents.tools.mcp.allowed_resources import is_named, may_name
from agents.tools.mcp.catalogue.pages import all_pages, is_absent
from agents.tools.mcp.pool import mcp_pool
from agents.tools.mcp.reading import MAX_LISTED, facts_of, found_in, reading_tool
from agents.tools.tool import Tool, current_call
from config.definitions.mcp_server import McpServerDefinition
from config.errors import ToolFailed
from config.visible import visible

MAX_TEXT = 50_000
"""Characters of a resource that one call returns."""
_SEARCH = {
    "type": "string",
    "maxLength": 200,
    "description": "Only what has this text in its URI, name or description.",
}
_LIST = {"type": "object", "properties": {"search": _SEARCH}, "additionalProperties": False}
_URI = {"type": "string", "maxLength": 2000, "description": "A listed URI, or one made of a listed template."}
_OFFSET = {"type": "integer", "minimum": 0, "description": "Characters of the text to pass over, 0 by default."}
_READ = {
    "type": "object",
    "properties": {"uri": _URI, "offset": _OFFSET},
    "required": ["uri"],
    "additionalProperties": False,
}


def resource_tools(server: McpServerDefinition, patterns: tuple[str, ...]) -> list[Tool]:
    """Return the tools for the resources of a server that these patterns name."""

    async def list_resources(search: str = "") -> Any:
        found = await mcp_pool().ask(current_call().tenant, server, _all)
        resources = [_facts(one) for one in found[0] if is_named(one.uri, patterns)]
        templates = [_template_facts(one) for one in found[1] if may_name(one.uri_template, patterns)]
        listed = found_in(resources, search, MAX_LISTED)
        return listed | ({"templates": found_in(templates, search, MAX_LISTED)["found"]} if templates else {})

    async def read_resource(uri: str, offset: int = 0) -> Any:
        if not is_named(uri, patterns):
            raise ToolFailed(f"{visible(uri[:200])} is not among the resources that this agent may read.")
        answer = await mcp_pool().ask(current_call().tenant, server, lambda session: _read(session, uri))
        if isinstance(answer, InputRequiredResult):
            raise ToolFailed(f"the MCP server {server.name} asks for an input before it returns a resource.")
        return _shown(answer, offset)

    named = ", ".join(patterns)[:500]
    what = f"the resources of the MCP server {server.name}" + ("" if "*" in patterns else f" ({named})")
    listing = reading_tool(server, server.resources, "list_resources", f"List {what}.", _LIST, list_resources)
    reading = f"Read one of {what}: its text, or what it is where it is no text."
    return [listing, reading_tool(server, server.resources, "read_resource", reading, _READ, read_resource)]


async def _read(session: ClientSession, uri: str) -> ReadResourceResult | InputRequiredResult:
    return await session.read_resource(uri, allow_input_required=True)


async def _all(session: ClientSession) -> tuple[list[Resource], list[ResourceTemplate]]:
    resources = await all_pages(session.list_resources, lambda page: cast(ListResourcesResult, page).resources)
    try:
        templates = await all_pages(
            session.list_resource_templates, lambda page: cast(ListResourceTemplatesResult, page).resource_templates
        )
    except Exception as error:
        if not is_absent(error):
            raise
        templates = []
    return resources, templates


def _facts(one: Resource) -> dict[str, Any]:
    facts = {"uri": one.uri, "name": one.title or one.name, "description": one.description, "mime_type": one.mime_type}
    return facts_of(facts) | ({"size": one.size} if one.size is not None else {})


def _template_facts(one: ResourceTemplate) -> dict[str, Any]:
    said = {"name": one.title or one.name, "description": one.description, "mime_type": one.mime_type}
    return facts_of({"uri_template": one.uri_template, **said})


def _shown(answer: ReadResourceResult, offset: int) -> Any:
    left, parts = MAX_TEXT, []
    for content in answer.contents:
        part = facts_of({"uri": str(content.uri), "mime_type": content.mime_type})
        if isinstance(content, TextResourceContents):
            text = content.text[offset : offset + left]
            left -= len(text)
            part["text"] = text
            rest = len(content.text) - offset - len(text)
            part |= {"next_offset": offset + len(text), "left": f"{rest:,} characters"} if rest > 0 else {}
        else:
            part["note"] = f"{_size(content.blob):,} bytes that are no text, which are not shown"
        parts.append(part)
    return {"contents": parts}


def _size(blob: str) -> int:
    """Return the bytes that a base64 text stands for."""
    return len(blob) * 3 // 4 - blob[-2:].count("=")
