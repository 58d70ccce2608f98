"""The tools that an agent's ``resources`` and ``prompts`` stand for: two of each kind for each server.

They read, and what they return is a server's text. Links in it are shown and never followed. A prompt is text of the
server's author, so it is a tool's result, and never a part of the agent's own instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from mcp import ClientSession
from mcp.types import (
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    Prompt,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from agents.tools.call_context import current_call
from agents.tools.mcp import PREFIX
from agents.tools.mcp.allowed_resources import by_server, is_named, may_name
from agents.tools.mcp.calls.result import to_part
from agents.tools.mcp.catalogue.pages import all_pages, is_absent
from agents.tools.mcp.pool import mcp_pool
from agents.tools.mcp.tool_builder import labels_of, server_named
from agents.tools.tool import Tool
from config.definitions.mcp_names import sent_name
from config.definitions.mcp_server import McpReadFields, McpServerDefinition
from config.effects import Effect
from config.errors import ToolFailed
from config.settings import Settings
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


# --- resources ----------------------------------------------------------------------------------------

MAX_TEXT = 50_000
"""Characters of a resource that one call returns."""
_SEARCH_RESOURCES = {
    "type": "string",
    "maxLength": 200,
    "description": "Only what has this text in its URI, name or description.",
}
_LIST_RESOURCES = {"type": "object", "properties": {"search": _SEARCH_RESOURCES}, "additionalProperties": False}
_URI = {"type": "string", "maxLength": 2000, "description": "A listed URI, or one made of a listed template."}
_OFFSET = {"type": "integer", "minimum": 0, "description": "Characters of the text to pass over, 0 by default."}
_READ_RESOURCE = {
    "type": "object",
    "properties": {"uri": _URI, "offset": _OFFSET},
    "required": ["uri"],
    "additionalProperties": False,
}


def resource_tools(server: McpServerDefinition, patterns: tuple[str, ...]) -> list[Tool]:
    """Return the tools for the resources of a server that these patterns name."""

    async def list_resources(search: str = "") -> Any:
        found = await mcp_pool().ask(current_call().tenant, server, _all_resources)
        resources = [_resource_facts(one) for one in found[0] if is_named(one.uri, patterns)]
        templates = [_template_facts(one) for one in found[1] if may_name(one.uri_template, patterns)]
        listed = found_in(resources, search, MAX_LISTED)
        return listed | ({"templates": found_in(templates, search, MAX_LISTED)["found"]} if templates else {})

    async def read_resource(uri: str, offset: int = 0) -> Any:
        if not is_named(uri, patterns):
            raise ToolFailed(f"{visible(uri[:200])} is not among the resources that this agent may read.")
        answer = await mcp_pool().ask(current_call().tenant, server, lambda session: _read_resource(session, uri))
        if isinstance(answer, InputRequiredResult):
            raise ToolFailed(f"the MCP server {server.name} asks for an input before it returns a resource.")
        return _shown_resource(answer, offset)

    named = ", ".join(patterns)[:500]
    what = f"the resources of the MCP server {server.name}" + ("" if "*" in patterns else f" ({named})")
    listing = reading_tool(server, server.resources, "list_resources", f"List {what}.", _LIST_RESOURCES, list_resources)
    reading = f"Read one of {what}: its text, or what it is where it is no text."
    return [listing, reading_tool(server, server.resources, "read_resource", reading, _READ_RESOURCE, read_resource)]


async def _read_resource(session: ClientSession, uri: str) -> ReadResourceResult | InputRequiredResult:
    return await session.read_resource(uri, allow_input_required=True)


async def _all_resources(session: ClientSession) -> tuple[list[Resource], list[ResourceTemplate]]:
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


def _resource_facts(one: Resource) -> dict[str, Any]:
    facts = {"uri": one.uri, "name": one.title or one.name, "description": one.description, "mime_type": one.mime_type}
    return facts_of(facts) | ({"size": one.size} if one.size is not None else {})


def _template_facts(one: ResourceTemplate) -> dict[str, Any]:
    said = {"name": one.title or one.name, "description": one.description, "mime_type": one.mime_type}
    return facts_of({"uri_template": one.uri_template, **said})


def _shown_resource(answer: ReadResourceResult, offset: int) -> Any:
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


# --- prompts ------------------------------------------------------------------------------------------

_SEARCH_PROMPTS = {
    "type": "string",
    "maxLength": 200,
    "description": "Only what has this text in its name or description.",
}
_LIST_PROMPTS = {"type": "object", "properties": {"search": _SEARCH_PROMPTS}, "additionalProperties": False}
_PROMPT_NAME = {"type": "string", "maxLength": 200, "description": "The prompt's name, as it is listed."}
_PROMPT_ARGUMENTS = {
    "type": "object",
    "additionalProperties": {"type": "string"},
    "description": "The prompt's arguments, as they are listed.",
}
_GET_PROMPT = {
    "type": "object",
    "properties": {"name": _PROMPT_NAME, "arguments": _PROMPT_ARGUMENTS},
    "required": ["name"],
    "additionalProperties": False,
}


def prompt_tools(server: McpServerDefinition, names: tuple[str, ...]) -> list[Tool]:
    """Return the tools for the prompts of a server with these names; ``*`` is all."""

    def is_offered(name: str) -> bool:
        return "*" in names or name in names

    async def list_prompts(search: str = "") -> Any:
        found = await mcp_pool().ask(current_call().tenant, server, _all_prompts)
        return found_in([_prompt_facts(one) for one in found if is_offered(one.name)], search, MAX_LISTED)

    async def get_prompt(name: str, arguments: dict[str, str] | None = None) -> Any:
        if not is_offered(name):
            raise ToolFailed(f"{visible(name[:200])} is not among the prompts that this agent may get.")
        answer = await mcp_pool().ask(
            current_call().tenant, server, lambda session: _get_prompt(session, name, arguments)
        )
        if isinstance(answer, InputRequiredResult):
            raise ToolFailed(f"the MCP server {server.name} asks for an input before it returns a prompt.")
        return {"messages": [{"role": one.role, "content": to_part(one.content)} for one in answer.messages]}

    what = f"the prompts of the MCP server {server.name}" + ("" if "*" in names else f" ({', '.join(names)[:500]})")
    listing = f"List {what}, with the arguments that each of them takes."
    getting = f"Get one of {what}, filled with arguments: messages that its author wrote as a beginning."
    return [
        reading_tool(server, server.prompts, "list_prompts", listing, _LIST_PROMPTS, list_prompts),
        reading_tool(server, server.prompts, "get_prompt", getting, _GET_PROMPT, get_prompt),
    ]


async def _all_prompts(session: ClientSession) -> list[Prompt]:
    return await all_pages(session.list_prompts, lambda page: cast(ListPromptsResult, page).prompts)


async def _get_prompt(
    session: ClientSession, name: str, arguments: dict[str, str] | None
) -> GetPromptResult | InputRequiredResult:
    return await session.get_prompt(name, arguments, allow_input_required=True)


def _prompt_facts(one: Prompt) -> dict[str, Any]:
    arguments = [
        facts_of({"name": said.name, "description": said.description}) | {"required": bool(said.required)}
        for said in one.arguments or ()
    ]
    return facts_of({"name": one.name, "description": one.description or one.title}) | {"arguments": arguments}


# --- both ---------------------------------------------------------------------------------------------

_MAKERS: Mapping[str, Callable[[McpServerDefinition, tuple[str, ...]], list[Tool]]] = {
    "resources": resource_tools,
    "prompts": prompt_tools,
}


def reading_tools(field: str, paths: Sequence[str], settings: Settings) -> list[Tool]:
    """Return the tools for the lines of a field. No server is asked.

    Raises:
        ToolUnknown: there is no such server.
    """
    return [
        tool
        for server, named in by_server(paths).items()
        for tool in _MAKERS[field](server_named(server, f"{PREFIX}{server}", settings), named)
    ]
