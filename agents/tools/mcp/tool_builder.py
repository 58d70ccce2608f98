"""Builds the tools ``mcp:<server>`` and ``mcp:<server>/<tool>`` from what the server lists and its file says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from agents.tools.call_context import current_call
from agents.tools.mcp import PREFIX
from agents.tools.mcp.calls.call import ServerToolCall, to_value
from agents.tools.mcp.catalogue.listed import EFFECT, TIMEOUT, ServerTool, listed
from agents.tools.mcp.catalogue.lists import where_sought
from agents.tools.mcp.catalogue.manifest import pinned_tools, require_accepted
from agents.tools.mcp.connection.faults import with_remedy
from agents.tools.mcp.pool import mcp_pool
from agents.tools.tool import Tool
from bus.loop import process_loop
from config.definitions.errors import ToolUnknown
from config.definitions.mcp.names import sent_name
from config.definitions.mcp.server import McpServerDefinition, McpToolFields, name_of, read_servers
from config.definitions.schemas.json_schema import SchemaRefused, check_schema, schema_errors
from config.definitions.schemas.shown_schema import shown_schema
from config.effects import INWARD, OUTWARD, TRUSTED, UNTRUSTED, Effect
from config.errors import CallboardError, ToolFailed
from config.settings import Settings
from config.text.names import did_you_mean
from config.text.visible import visible
from config.tracing import TRACEPARENT, current_traceparent

log = logging.getLogger(__name__)

LIST_S = 30.0
"""Seconds that a server may take to list its tools, once it is ready."""
MAX_DESCRIPTION = 4000
MAX_TIMEOUT_S = 86_400.0
IDEMPOTENCY_KEY = "callboard/idempotency_key"
"""The member of a call's ``_meta`` with its idempotency key, for ``keyed`` tools."""
_OWN_EFFECTS = tuple(effect.value for effect in Effect if not effect.policy.needs_check)


def mcp_tools(path: str, settings: Settings) -> list[Tool]:
    """Return the tools that a definition names so.

    Asks the server, which may have to be started; so it is to be called on a plain thread.

    Raises:
        ToolUnknown: there is no such server or tool, or it cannot be used; says what to write.
    """
    name, _, tool_name = path.removeprefix(PREFIX).partition("/")
    server = server_named(name, path, settings)
    tools, where = _ask(server, path, settings)
    if not tool_name:
        return [tool for server_tool in tools.values() if (tool := _tool_or_none(server, server_tool)) is not None]
    if tool_name not in tools:
        problem = f"the MCP server {name} has no tool '{tool_name[:80]}' that may be used{where}."
        why = f" `./callboard mcp tools {name}` says which are left out, and why."
        raise ToolUnknown(f"{problem}{did_you_mean(tool_name, tools) or why}", name=path)
    try:
        return [build_mcp_tool(server, tools[tool_name])]
    except SchemaRefused as error:
        raise ToolUnknown(f"tool '{path[:200]}' cannot be used: {error}", name=path) from error


def server_named(name: str, path: str, settings: Settings) -> McpServerDefinition:
    """Return the server that a line of an agent's file names.

    Raises:
        ToolUnknown: there is none.
    """
    servers, broken = read_servers(settings.mcp_servers_folders)
    if name in servers and servers[name].disabled:
        problem = f"the MCP server {name} is disabled; remove `disabled: true` from {servers[name].file}."
        raise ToolUnknown(problem, name=path)
    if name in servers:
        return servers[name]
    own = next((error for error in broken if name_of(error) == name), None)
    if own is not None:
        raise ToolUnknown(f"the MCP server '{name[:80]}' cannot be used: {own}", name=path)
    hint = did_you_mean(name, servers)
    problem = f"there is no MCP server '{name[:80]}'.{hint} Describe it in config/mcp_servers (docs/mcp-servers.md)."
    raise ToolUnknown(problem, name=path)


def _ask(server: McpServerDefinition, path: str, settings: Settings) -> tuple[dict[str, ServerTool], str]:
    """Return the included tools that the server has, and where others were sought (``where_sought``)."""

    async def listed_tools() -> tuple[dict[str, ServerTool], str]:
        async with asyncio.timeout(server.start_s + LIST_S):
            tools = await mcp_pool().tools(settings.tenant, server)
        return listed(tools, server.name), where_sought(len(tools))

    seen: dict[str, ServerTool] | None = None
    where = ""
    problem = f"the MCP server {server.name} did not list its tools within {LIST_S:g} seconds."
    try:
        seen, where = process_loop().run(listed_tools())
    except TimeoutError:
        pass
    except CallboardError as error:
        problem = with_remedy(error)
    pinned = pinned_tools(server.name, seen)
    if seen is None and not pinned:
        raise ToolUnknown(f"tool '{path[:200]}' cannot be used now: {problem}", name=path)
    if seen is None:
        log.warning("the tools of the MCP server %s are taken as they were: %s", server.name, problem)
    return {name: tool for name, tool in pinned.items() if server.includes(name)}, where


def _tool_or_none(server: McpServerDefinition, server_tool: ServerTool) -> Tool | None:
    """Return a tool that is not named by itself; None where its schema cannot be used."""
    try:
        return build_mcp_tool(server, server_tool)
    except SchemaRefused as error:
        log.warning("the tool %s of the MCP server %s is left out: %s", server_tool.name, server.name, error)
        return None


def build_mcp_tool(server: McpServerDefinition, server_tool: ServerTool) -> Tool:
    """Return a server's tool as agents get it.

    Raises:
        SchemaRefused: the schema of its arguments cannot be used.
    """
    fields = server.tools.get(server_tool.name, McpToolFields())
    effect = fields.effect or _effect(server, server_tool.annotations)
    return Tool(
        name=sent_name(server_tool.name),
        description=_description(server, server_tool),
        parameters=_input_schema(server_tool.input_schema),
        function=_calling(server, server_tool, effect),
        effect=effect,
        timeout_s=fields.timeout_s or _timeout_s(server, server_tool.annotations),
        confirm=fields.confirm,
        roles=fields.roles,
        classification=fields.classification,
        output_schema=_output_schema(server_tool.output_schema),
        labels=labels_of(fields.labels),
        implementation=server_tool.digest,
        mcp=(server.name, server_tool.name),
    )


def _calling(server: McpServerDefinition, server_tool: ServerTool, effect: Effect) -> Callable[..., Any]:
    async def call_mcp(**arguments: Any) -> Any:
        pool, tenant = mcp_pool(), current_call().tenant
        now = await pool.listed_now(tenant, server, server_tool.name)
        if now.digest != server_tool.digest:
            await require_accepted(server.name, server_tool, now)
            _require_fitting(now, arguments)
        meta = {IDEMPOTENCY_KEY: current_call().idempotency_key} if effect is Effect.KEYED else {}
        if (traceparent := current_traceparent()) is not None:
            meta[TRACEPARENT] = traceparent  # as SEP-414 has it
        call = ServerToolCall(server, current_call(), effect)
        send = partial(pool.exchange, tenant, server, server_tool.name, arguments, meta, call)
        return to_value(await call.made(send))

    return call_mcp


def _require_fitting(now: ServerTool, arguments: Mapping[str, Any]) -> None:
    """Return if the arguments fit the accepted definition; the model knows the one before.

    Raises:
        ToolFailed: they do not.
    """
    try:
        problems = schema_errors(_input_schema(now.input_schema), dict(arguments))
    except SchemaRefused as error:
        raise ToolFailed(f"the tool {now.name} has changed, and cannot be used: {error}") from error
    if problems:
        raise ToolFailed(f"the tool {now.name} has changed, and its arguments do not fit: {'; '.join(problems)}.")


def _effect(server: McpServerDefinition, hints: Mapping[str, Any]) -> Effect:
    """Return the effect that the server's hints say, where they are trusted; else ``unsafe``."""
    own = hints.get(EFFECT)
    if server.trusted_hints and own in _OWN_EFFECTS:
        return Effect(own)
    if server.trusted_hints and hints.get("readOnlyHint") is True:
        return Effect.PURE
    if server.trusted_hints and hints.get("idempotentHint") is True:
        return Effect.IDEMPOTENT
    return Effect.UNSAFE


def _timeout_s(server: McpServerDefinition, hints: Mapping[str, Any]) -> float | None:
    """Return the seconds that the server announces for a call, where its hints are trusted; None: the agent's."""
    own = hints.get(TIMEOUT)
    if not server.trusted_hints or not isinstance(own, int | float) or isinstance(own, bool):
        return None
    return float(own) if 0 < own <= MAX_TIMEOUT_S else None


def labels_of(labels: frozenset[str]) -> frozenset[str]:
    """Return the labels: what a server answers is untrusted, and calls leave for it, unless the file says otherwise."""
    origin = set() if TRUSTED in labels else {UNTRUSTED}
    direction = set() if INWARD in labels else {OUTWARD}
    return labels | origin | direction


def _description(server: McpServerDefinition, server_tool: ServerTool) -> str:
    text = visible(server_tool.description).strip()[:MAX_DESCRIPTION]
    return text or f"The tool {server_tool.name} of the MCP server {server.name}."


def with_bad_schemas(server: McpServerDefinition, tools: Mapping[str, ServerTool]) -> dict[str, str]:
    """Return the tools whose schemas cannot be used, and why."""
    problems = {}
    for name, tool in tools.items():
        try:
            build_mcp_tool(server, tool)
        except SchemaRefused as error:
            problems[name] = str(error)
    return problems


def _input_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of the arguments, with its texts visible.

    Raises:
        SchemaRefused: it is none of an object, too large, or refers to something outside itself; or as
            ``shown_schema``.
    """
    model_schema = shown_schema(schema)
    if model_schema.get("type") != "object":
        raise SchemaRefused("the schema of the arguments is not of an object.")
    model_schema.setdefault("properties", {})
    check_schema(model_schema)
    return model_schema


def _output_schema(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the schema of the result; None where there is none that can be used."""
    if schema is None:
        return None
    model_schema = shown_schema(schema)
    try:
        check_schema(model_schema)
    except SchemaRefused:
        return None
    return model_schema
