"""What `mcp inspect` finds out about a server by connecting to it now."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

import click
from mcp import ClientSession, MCPError
from mcp.types import ListPromptsResult, ListResourcesResult, ListResourceTemplatesResult

from agents.tools.mcp.catalogue.lists import MAX_ITEMS, all_pages, is_absent
from agents.tools.mcp.connection.faults import McpFault
from agents.tools.mcp.sdk_logging import silence_sdk_logging
from agents.tools.mcp.server_session import McpSession, listing, session_of
from agents.tools.mcp.server_states import transport_of
from agents.tools.mcp.tool_builder import with_bad_schemas
from cli.doctor.mcp_servers import LIST_S
from cli.output.quoted import hanging
from config.definitions.mcp.server import McpServerDefinition
from config.errors import CallboardError
from config.redaction import redact_start
from config.text.visible import visible

MODERN = "2026"
"""The year from which on versions of the protocol have no handshake."""
MAX_TEXT = 4000
"""Characters of a server's own texts that are shown."""
LISTS: Mapping[str, Callable[[ClientSession], Any]] = {
    "resources": lambda session: all_pages(
        session.list_resources, lambda page: cast(ListResourcesResult, page).resources
    ),
    "resource_templates": lambda session: all_pages(
        session.list_resource_templates, lambda page: cast(ListResourceTemplatesResult, page).resource_templates
    ),
    "prompts": lambda session: all_pages(session.list_prompts, lambda page: cast(ListPromptsResult, page).prompts),
}


async def inspected(server: McpServerDefinition, tenant: str) -> dict[str, Any]:
    """Return what a server says of itself, as JSON data; ``problem`` and ``remedy`` where it cannot be used."""
    facts: dict[str, Any] = {"name": server.name, "file": server.file, "transport": transport_of(server)}
    facts |= {"command": list(server.argv())} if server.command is not None else {"url": server.url}
    silence_sdk_logging()
    try:
        session = session_of(server, tenant)
    except CallboardError as error:
        return facts | {"problem": str(error)}
    try:
        facts |= await _asked(session)
    except CallboardError as error:
        facts |= _problem(error, session)
    except TimeoutError:
        facts["problem"] = f"the MCP server {server.name} did not answer within {LIST_S:g} seconds"
    finally:
        await session.life.close(at_once=True)
    return facts | ({"stderr": session.life.said} if session.life.said else {})


def _problem(error: CallboardError, session: McpSession) -> dict[str, Any]:
    """Return what is wrong, without the standard error, which is a fact of its own."""
    text, fault = session.life.problem or str(error), error.facts.get("fault")
    problem = {"problem": text.partition("; its standard error ends with:")[0]}
    return problem | ({"fault": str(fault), "remedy": fault.remedy} if isinstance(fault, McpFault) else {})


async def _asked(session: McpSession) -> dict[str, Any]:
    began_s = time.monotonic()
    session.life.start()
    await session.life.opened()
    ready_s = time.monotonic()
    async with asyncio.timeout(LIST_S):
        usable, refused = await listing(session)
        listed_s = time.monotonic()
        greeting = await session.ask(_greeting)
        counts = {name: await _count(session, ask) for name, ask in LISTS.items()}
    refused |= with_bad_schemas(session.server, usable)
    tools = {
        "tools": len(usable.keys() | refused.keys()),
        "included_tools": sum(session.server.includes(name) for name in usable.keys() - refused.keys()),
        "unusable_tools": refused,
    }
    times = {"ready_ms": _ms(ready_s - began_s), "list_ms": _ms(listed_s - ready_s)}
    return {**greeting, **tools, **{name: number for name, number in counts.items() if number is not None}, **times}


async def _greeting(session: ClientSession) -> dict[str, Any]:
    version, info, capabilities = session.protocol_version or "", session.server_info, session.server_capabilities
    return {
        "protocol": version,
        "has_handshake": version < MODERN,
        "server": _shown(f"{info.name} {info.version or ''}".strip()) if info is not None else None,
        "capabilities": sorted(capabilities.model_dump(exclude_none=True, by_alias=True)) if capabilities else [],
        "instructions": _shown(session.instructions or ""),
    }


async def _count(session: McpSession, ask: Callable[[ClientSession], Any]) -> int | None:
    """Return how many there are; None where the server has no list of this kind."""

    async def counted(inner: ClientSession) -> int | None:
        try:
            return len(await ask(inner))
        except MCPError as error:
            if is_absent(error):
                return None
            raise

    return await session.ask(counted)


def _shown(text: str) -> str:
    return visible(redact_start(text, MAX_TEXT))


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def print_inspected(facts: Mapping[str, Any]) -> None:
    """Print what was found, a fact a line."""
    where = " ".join(facts["command"]) if "command" in facts else facts["url"]
    lines = {"file": facts["file"], facts["transport"]: where}
    if "protocol" in facts:
        lines |= _lines(facts)
    for name, text in lines.items():
        if text:
            click.echo(f"{name:<13} {hanging(visible(str(text)))}")
    for name, why in facts.get("unusable_tools", {}).items():
        click.secho(f"left out      {visible(name)[:80]}: {why}", fg="yellow")
    if facts.get("stderr"):
        click.secho("its standard error ends with:", dim=True)
        click.echo("\n".join(f"  {line}" for line in facts["stderr"].split("\n")[-20:]))
    if "problem" in facts:
        click.secho(f"cannot be used: {visible(facts['problem'])}", fg="red", err=True)
    if "remedy" in facts:
        click.echo(facts["remedy"], err=True)


def _lines(facts: Mapping[str, Any]) -> dict[str, str]:
    era = "with the handshake" if facts["has_handshake"] else "without a handshake"
    counts = [f"tools: {_at_least(facts['tools'])} ({facts['included_tools']} included)"]
    counts += [f"{name.replace('_', ' ')}: {_at_least(facts[name])}" for name in LISTS if name in facts]
    return {
        "server": facts["server"] or "",
        "protocol": f"{facts['protocol']}, {era}",
        "capabilities": ", ".join(facts["capabilities"]) or "none",
        "has": ", ".join(counts),
        "time": f"ready after {facts['ready_ms']} ms, tools listed after {facts['list_ms']} ms more",
        "instructions": facts["instructions"],
    }


def _at_least(count: int) -> str:
    return f"{count:,} or more" if count >= MAX_ITEMS else str(count)
