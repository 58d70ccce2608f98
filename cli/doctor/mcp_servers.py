"""Checks of the MCP servers: their files, whether they start, and the tools that they have."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from cli.doctor.finding import Judged, Verdicts, fail, ok, warn
from config.definitions.mcp_server import McpServerDefinition, read_servers
from config.errors import CallboardError
from config.settings import Settings
from config.spelling import did_you_mean

if TYPE_CHECKING:
    from agents.tools.mcp.pool import McpPool

LIST_S = 30.0
"""Seconds that a server may take to list its tools, once it is ready."""


def check_mcp_servers(settings: Settings) -> Verdicts:
    """Yield what is wrong with each server; nothing where there is none."""
    servers, broken = read_servers(settings.mcp_servers_folders)
    for error in broken:
        yield fail(str(error))
    if servers:
        yield from asyncio.run(_asked(list(servers.values())))


async def _asked(servers: list[McpServerDefinition]) -> list[Judged]:
    from agents.tools.mcp.pool import McpPool  # takes half a second

    pool = McpPool()
    try:
        return list(await asyncio.gather(*(_judged(pool, server) for server in servers)))
    finally:
        await pool.close()


async def _judged(pool: McpPool, server: McpServerDefinition) -> Judged:
    try:
        async with asyncio.timeout(server.start_s + LIST_S):
            names = [tool.name for tool in await pool.tools("doctor", server)]
    except CallboardError as error:
        return fail(str(error))
    except TimeoutError:
        return fail(f"the MCP server {server.name} did not list its tools within {LIST_S:g} seconds")
    missing = [name for name in server.included_tools or () if name not in names]
    if missing:
        hint = did_you_mean(missing[0], names)
        return warn(f"{server.name}: it has no tool '{missing[0]}', which {server.file} includes.{hint}")
    return ok(f"{server.name}: {sum(server.includes(name) for name in names)} of its {len(names)} tools may be used")
