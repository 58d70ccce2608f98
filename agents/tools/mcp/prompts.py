"""The two tools with which an agent lists and gets those prompts of a server that its file names.

A prompt is text of the server's author, so it is a tool's result, and never a part of the agent's own instructions.
"""

from __future__ import annotations

from typing import Any, cast

from mcp import ClientSession
from mcp.types import GetPromptResult, InputRequiredResult, ListPromptsResult, Prompt

from agents.tools.mcp.calls.result import to_part
from agents.tools.mcp.catalogue.pages import all_pages
from agents.tools.mcp.pool import mcp_pool
from agents.tools.mcp.reading import MAX_LISTED, facts_of, found_in, reading_tool
from agents.tools.tool import Tool, current_call
from config.definitions.mcp_server import McpServerDefinition
from config.errors import ToolFailed
from config.visible import visible

_SEARCH = {"type": "string", "maxLength": 200, "description": "Only what has this text in its name or description."}
_LIST = {"type": "object", "properties": {"search": _SEARCH}, "additionalProperties": False}
_NAME = {"type": "string", "maxLength": 200, "description": "The prompt's name, as it is listed."}
_ARGUMENTS = {
    "type": "object",
    "additionalProperties": {"type": "string"},
    "description": "The prompt's arguments, as they are listed.",
}
_GET = {
    "type": "object",
    "properties": {"name": _NAME, "arguments": _ARGUMENTS},
    "required": ["name"],
    "additionalProperties": False,
}


def prompt_tools(server: McpServerDefinition, names: tuple[str, ...]) -> list[Tool]:
    """Return the tools for the prompts of a server with these names; ``*`` is all."""

    def is_offered(name: str) -> bool:
        return "*" in names or name in names

    async def list_prompts(search: str = "") -> Any:
        found = await mcp_pool().ask(current_call().tenant, server, _all)
        return found_in([_facts(one) for one in found if is_offered(one.name)], search, MAX_LISTED)

    async def get_prompt(name: str, arguments: dict[str, str] | None = None) -> Any:
        if not is_offered(name):
            raise ToolFailed(f"{visible(name[:200])} is not among the prompts that this agent may get.")
        answer = await mcp_pool().ask(current_call().tenant, server, lambda session: _get(session, name, arguments))
        if isinstance(answer, InputRequiredResult):
            raise ToolFailed(f"the MCP server {server.name} asks for an input before it returns a prompt.")
        return {"messages": [{"role": one.role, "content": to_part(one.content)} for one in answer.messages]}

    what = f"the prompts of the MCP server {server.name}" + ("" if "*" in names else f" ({', '.join(names)[:500]})")
    listing = f"List {what}, with the arguments that each of them takes."
    getting = f"Get one of {what}, filled with arguments: messages that its author wrote as a beginning."
    return [
        reading_tool(server, server.prompts, "list_prompts", listing, _LIST, list_prompts),
        reading_tool(server, server.prompts, "get_prompt", getting, _GET, get_prompt),
    ]


async def _all(session: ClientSession) -> list[Prompt]:
    return await all_pages(session.list_prompts, lambda page: cast(ListPromptsResult, page).prompts)


async def _get(
    session: ClientSession, name: str, arguments: dict[str, str] | None
) -> GetPromptResult | InputRequiredResult:
    return await session.get_prompt(name, arguments, allow_input_required=True)


def _facts(one: Prompt) -> dict[str, Any]:
    arguments = [
        facts_of({"name": said.name, "description": said.description}) | {"required": bool(said.required)}
        for said in one.arguments or ()
    ]
    return facts_of({"name": one.name, "description": one.description or one.title}) | {"arguments": arguments}
