"""Checks of the MCP servers: their files, whether they start, and the tools that they have."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agents.tools.mcp.catalogue.listed import sorted_out
from agents.tools.mcp.connection.faults import with_remedy
from config.definitions.mcp.server import McpServerDefinition, read_servers
from config.errors import CallboardError
from config.settings import Settings
from config.text.names import did_you_mean
from config.text.visible import visible
from web.doctor import Judged, Verdicts, fail, ok, warn

if TYPE_CHECKING:
    from mcp.types import Tool

    from agents.tools.mcp.pool import McpPool

LIST_S = 30.0
"""Seconds that a server may take to list its tools, once it is ready."""


def check_mcp_servers(settings: Settings) -> Verdicts:
    """Yield what is wrong with each server; nothing where there is none."""
    servers, broken = read_servers(settings.mcp_servers_folders)
    for folder in settings.mcp_servers_folders:
        if not folder.is_dir():
            yield warn(f"there is no folder {folder}; correct CALLBOARD_MCP_SERVERS_DIR, or make the folder")
    for error in broken:
        yield fail(str(error))
    for server in servers.values():
        if server.disabled:
            yield ok(f"{server.name}: disabled, so it is not started ({server.file})")
    if used := [server for server in servers.values() if not server.disabled]:
        yield from asyncio.run(_asked(used, settings.tenant))


async def _asked(servers: list[McpServerDefinition], tenant: str) -> list[Judged]:
    from agents.tools.mcp.pool import McpPool  # takes half a second
    from agents.tools.mcp.sdk_logging import silence_sdk_logging

    silence_sdk_logging()
    pool = McpPool()
    try:
        return list(await asyncio.gather(*(_judged(pool, server, tenant) for server in servers)))
    finally:
        await pool.close()


async def _judged(pool: McpPool, server: McpServerDefinition, tenant: str) -> Judged:
    try:
        async with asyncio.timeout(server.start_s + LIST_S):
            tools = await pool.tools(tenant, server)
    except CallboardError as error:
        return fail(with_remedy(error))
    except TimeoutError:
        return fail(f"the MCP server {server.name} did not list its tools within {LIST_S:g} seconds")
    return _judged_tools(server, tools)


def _judged_tools(server: McpServerDefinition, tools: list[Tool]) -> Judged:
    """Say how many tools agents may have, and which they do not get although the file names them."""
    from agents.tools.mcp.catalogue.lists import tools_read, where_sought
    from agents.tools.mcp.tool_builder import with_bad_schemas

    names = {tool.name for tool in tools}
    missing = [name for name in (*(server.included_tools or ()), *server.tools) if name not in names]
    if missing:
        hint, verb = did_you_mean(missing[0], names), "includes" if server.included_tools else "has under `tools`"
        where = where_sought(len(tools))
        return warn(f"{server.name}: it has no tool '{missing[0]}'{where}, which {server.file} {verb}.{hint}")
    usable, left_out = sorted_out(tools)
    left_out |= with_bad_schemas(server, usable)
    count = sum(server.includes(name) for name in usable.keys() - left_out.keys())
    sentence = f"{server.name}: {count} of {tools_read(len(names))} may be used"
    unusable = sorted(name for name in left_out if server.includes(name))
    return (
        warn(f"{sentence}; `./callboard mcp tools {server.name}` says why {_few(unusable)} not")
        if unusable
        else ok(sentence)
    )


def _few(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(visible(name[:80]) or "one without a name" for name in names[:3]) + f"{more} may"
