"""The tools that an agent's ``resources`` and ``prompts`` stand for: two of each kind for each server.

They read, and what they return is a server's text. Links in it are shown and never followed. A prompt is text of the
server's author, so it is a tool's result, and never a part of the agent's own instructions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast
from urllib.parse import unquote

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
from agents.tools.mcp.calls.call import to_part
from agents.tools.mcp.catalogue.lists import all_pages, is_absent
from agents.tools.mcp.pool import mcp_pool
from agents.tools.mcp.tool_builder import labels_of, server_named
from agents.tools.tool import Tool
from config.definitions.mcp.names import sent_name
from config.definitions.mcp.server import McpReadFields, McpServerDefinition
from config.effects import Effect
from config.errors import ToolFailed
from config.settings import Settings
from config.text.visible import visible

MAX_LISTED = 200
"""Items of a list that one call returns."""
MAX_FACT = 1000
"""Characters of a name or description in a list."""


def _reading_tool(
    server: McpServerDefinition,
    fields: McpReadFields,
    name: str,
    description: str,
    parameters: Mapping[str, Any],
    function: Callable[..., Any],
) -> Tool:
    """Return a ``pure`` tool that is named after its server; ``fields`` are those of the server's file."""
    return Tool(
        name=sent_name(f"{server.name}_{name}"),
        description=description,
        parameters=parameters,
        function=function,
        effect=Effect.PURE,
        timeout_s=fields.timeout_s,
        confirm=fields.confirm,
        roles=fields.roles,
        classification=fields.classification,
        labels=labels_of(fields.labels),
    )


def _facts(texts: Mapping[str, str | None]) -> dict[str, Any]:
    """Return what a server says of a thing, without what is missing; a URI and a URI template stay whole."""
    whole = ("uri", "uri_template")
    return {name: visible(text if name in whole else text[:MAX_FACT]) for name, text in texts.items() if text}


def _matches(items: Sequence[dict[str, Any]], search: str) -> dict[str, Any]:
    """Return the items with a text in them, ``MAX_LISTED`` at most, and how many are left out."""
    text = search.lower()
    matches = [item for item in items if text in " ".join(str(value) for value in item.values()).lower()]
    left = len(matches) - MAX_LISTED
    note = {"note": f"{left:,} more; search for a text to see them"} if left > 0 else {}
    return {"found": matches[:MAX_LISTED], **note}


def _arguments(*required: str, **properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a tool's arguments."""
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False}


def _named(patterns: Sequence[str]) -> str:
    """Return which of them an agent's file names, for a description; nothing where it names all."""
    return "" if "*" in patterns else f" ({', '.join(patterns)[:500]})"


def _search(fields: str) -> dict[str, Any]:
    return {"type": "string", "maxLength": 200, "description": f"Only what has this text in its {fields}."}


# --- resources ----------------------------------------------------------------------------------------

MAX_TEXT = 50_000
"""Characters of a resource that one call returns."""
_URI = {"type": "string", "maxLength": 2000, "description": "A listed URI, or one made of a listed template."}
_OFFSET = {"type": "integer", "minimum": 0, "description": "Characters of the text to pass over, 0 by default."}
_LIST_RESOURCES = _arguments(search=_search("URI, name or description"))
_READ_RESOURCE = _arguments("uri", uri=_URI, offset=_OFFSET)


def resource_tools(server: McpServerDefinition, patterns: tuple[str, ...]) -> list[Tool]:
    """Return the tools for the resources of a server that these patterns name."""

    async def list_resources(search: str = "") -> Any:
        resources, templates = await mcp_pool().ask(current_call().tenant, server, _all_resources)
        listing = _matches([_resource_facts(each) for each in resources if is_named(each.uri, patterns)], search)
        allowed = [_template_facts(each) for each in templates if may_name(each.uri_template, patterns)]
        return listing | ({"templates": _matches(allowed, search)["found"]} if allowed else {})

    async def read_resource(uri: str, offset: int = 0) -> Any:
        if not is_named(uri, patterns):
            raise ToolFailed(f"{visible(uri[:200])} is not among the resources that this agent may read.")
        answer = await mcp_pool().ask(current_call().tenant, server, lambda session: _read_resource(session, uri))
        if isinstance(answer, InputRequiredResult):
            raise ToolFailed(f"the MCP server {server.name} asks for an input before it returns a resource.")
        return _contents(answer, offset)

    what = f"the resources of the MCP server {server.name}" + _named(patterns)
    listing, reading = f"List {what}.", f"Read one of {what}: its text, or what it is where it is no text."
    return [
        _reading_tool(server, server.resources, "list_resources", listing, _LIST_RESOURCES, list_resources),
        _reading_tool(server, server.resources, "read_resource", reading, _READ_RESOURCE, read_resource),
    ]


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


def _resource_facts(resource: Resource) -> dict[str, Any]:
    facts = _facts({"uri": resource.uri, **_texts_of(resource)})
    return facts | ({"size": resource.size} if resource.size is not None else {})


def _template_facts(template: ResourceTemplate) -> dict[str, Any]:
    return _facts({"uri_template": template.uri_template, **_texts_of(template)})


def _texts_of(item: Resource | ResourceTemplate) -> dict[str, str | None]:
    return {"name": item.title or item.name, "description": item.description, "mime_type": item.mime_type}


def _contents(answer: ReadResourceResult, offset: int) -> Any:
    left, parts = MAX_TEXT, []
    for content in answer.contents:
        part = _facts({"uri": str(content.uri), "mime_type": content.mime_type})
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

_NAME = {"type": "string", "maxLength": 200, "description": "The prompt's name, as it is listed."}
_VALUES = {
    "type": "object",
    "additionalProperties": {"type": "string"},
    "description": "The prompt's arguments, as they are listed.",
}
_LIST_PROMPTS = _arguments(search=_search("name or description"))
_GET_PROMPT = _arguments("name", name=_NAME, arguments=_VALUES)


def prompt_tools(server: McpServerDefinition, names: tuple[str, ...]) -> list[Tool]:
    """Return the tools for the prompts of a server with these names; ``*`` is all."""

    def is_offered(name: str) -> bool:
        return "*" in names or name in names

    async def list_prompts(search: str = "") -> Any:
        prompts = await mcp_pool().ask(current_call().tenant, server, _all_prompts)
        return _matches([_prompt_facts(prompt) for prompt in prompts if is_offered(prompt.name)], search)

    async def get_prompt(name: str, arguments: dict[str, str] | None = None) -> Any:
        if not is_offered(name):
            raise ToolFailed(f"{visible(name[:200])} is not among the prompts that this agent may get.")
        answer = await mcp_pool().ask(
            current_call().tenant, server, lambda session: _get_prompt(session, name, arguments)
        )
        if isinstance(answer, InputRequiredResult):
            raise ToolFailed(f"the MCP server {server.name} asks for an input before it returns a prompt.")
        return {"messages": [{"role": each.role, "content": to_part(each.content)} for each in answer.messages]}

    what = f"the prompts of the MCP server {server.name}" + _named(names)
    listing = f"List {what}, with the arguments that each of them takes."
    getting = f"Get one of {what}, filled with arguments: messages that its author wrote as a beginning."
    return [
        _reading_tool(server, server.prompts, "list_prompts", listing, _LIST_PROMPTS, list_prompts),
        _reading_tool(server, server.prompts, "get_prompt", getting, _GET_PROMPT, get_prompt),
    ]


async def _all_prompts(session: ClientSession) -> list[Prompt]:
    return await all_pages(session.list_prompts, lambda page: cast(ListPromptsResult, page).prompts)


async def _get_prompt(
    session: ClientSession, name: str, arguments: dict[str, str] | None
) -> GetPromptResult | InputRequiredResult:
    return await session.get_prompt(name, arguments, allow_input_required=True)


def _prompt_facts(prompt: Prompt) -> dict[str, Any]:
    arguments = [
        _facts({"name": argument.name, "description": argument.description}) | {"required": bool(argument.required)}
        for argument in prompt.arguments or ()
    ]
    return _facts({"name": prompt.name, "description": prompt.description or prompt.title}) | {"arguments": arguments}


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
        for server, patterns in by_server(paths).items()
        for tool in _MAKERS[field](server_named(server, f"{PREFIX}{server}", settings), patterns)
    ]


# --- which of them an agent's file names; what it does not name, the server is not asked for


MAX_URI = 2000
_SEPARATORS = re.compile(r"[/\\]")
_INVISIBLE = re.compile(r"[\x00-\x20\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def by_server(paths: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """Return what the lines of a file name, by server; ``*`` stands for all that a server has."""
    names_by_server: dict[str, list[str]] = {}
    for path in paths:
        server, _, named = path.removeprefix(PREFIX).partition("/")
        names_by_server.setdefault(server, []).append(named or "*")
    return {server: tuple(named) for server, named in names_by_server.items()}


def is_named(uri: str, patterns: Collection[str]) -> bool:
    """Return whether the patterns have this URI; ``*`` in a pattern is any text, also none.

    A URI with a step to a parent folder is not below what a pattern's beginning says, so no ``*`` matches it.
    """
    if uri in patterns and "*" not in uri:
        return True
    if len(uri) > MAX_URI or _INVISIBLE.search(uri) or _climbs(uri):
        return False
    return any(_is_named_by(pattern, uri) for pattern in patterns)


def may_name(template: str, patterns: Collection[str]) -> bool:
    """Return whether a URI that the template makes may be among those that the patterns have."""
    fixed = template.partition("{")[0]
    starts = [pattern.partition("*")[0] for pattern in patterns]
    return any(fixed.startswith(start) or start.startswith(fixed) for start in starts)


def _climbs(uri: str) -> bool:
    """Return whether a server could read the URI as a path with ``.`` or ``..``, also behind two encodings."""
    texts = (uri, unquote(uri), unquote(unquote(uri)))
    return any(
        part in (".", "..") for text in texts for part in _SEPARATORS.split(re.split(r"[?#]", text, maxsplit=1)[0])
    )


def _is_named_by(pattern: str, uri: str) -> bool:
    first, *others = pattern.split("*")
    if not others:
        return pattern == uri
    *middle, last = others
    if not uri.startswith(first) or not uri.endswith(last) or len(first) + len(last) > len(uri):
        return False
    at, end = len(first), len(uri) - len(last)
    for part in middle:
        at = uri.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True
