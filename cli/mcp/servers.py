"""What `mcp servers` lists: the file of each server, how it is in the workers, and the definitions that are pinned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.tools.mcp.server_states import fleet_states, of_file, transport_of
from bus.journal import Journal
from cli.output.table import Column, Table
from config.definitions.errors import DefinitionInvalid
from config.definitions.mcp.server import McpServerDefinition, name_of, read_servers
from config.errors import BadRequest
from config.ids import canonical_digest
from config.settings import Settings
from config.text.names import did_you_mean
from config.text.visible import visible

MANIFEST_CHARS = 12
"""Characters of a manifest's digest that people see."""


def server_rows(settings: Settings, journal: Journal) -> list[dict[str, Any]]:
    """Return each server by name, as JSON data."""
    servers, broken = read_servers(settings.mcp_servers_folders)
    states = fleet_states(journal.stores.workers.alive())
    rows = [_row(server, states.get(server.name), journal) for server in servers.values()]
    rows += [{"name": name_of(error), "state": "invalid", "reason": str(error)} for error in broken]
    return sorted(rows, key=lambda row: str(row["name"]))


def no_servers(settings: Settings) -> str:
    """Return that there are no files of servers, and where one would be read."""
    folders = settings.mcp_servers_folders
    gone = [str(folder) for folder in folders if not folder.is_dir()]
    problem = f" There is no folder {gone[0]}; CALLBOARD_MCP_SERVERS_DIR names it." if gone else ""
    where = " or ".join(map(str, folders)) or "a folder that CALLBOARD_MCP_SERVERS_DIR names"
    return f"no MCP servers; describe one in {where} (docs/mcp-servers.md).{problem}"


def _row(server: McpServerDefinition, state: Mapping[str, Any] | None, journal: Journal) -> dict[str, Any]:
    pinned = {
        tool: digest
        for tool, digest in journal.stores.mcp_manifests.digests(server.name).items()
        if server.includes(tool)
    }
    own = of_file(server).plain()
    facts = {
        "name": server.name,
        "file": server.file,
        "transport": transport_of(server),
        "pinned_tools": len(pinned),
        "manifest": manifest_of(pinned),
    }
    return {**own, **(state if state is not None and not server.disabled else {}), **facts}


def manifest_of(digests: Mapping[str, str]) -> str | None:
    """Return the SHA-256 of the pinned definitions of a server's tools; None where nothing is pinned."""
    if not digests:
        return None
    return canonical_digest(dict(digests))


def server_of(name: str, settings: Settings) -> McpServerDefinition:
    """Return the server with this name, which can be connected to.

    Raises:
        DefinitionInvalid: its file cannot be used.
        BadRequest: there is none, or it is disabled.
    """
    server = known_server(name, settings)
    if server.disabled:
        raise BadRequest(f"the MCP server {name} is disabled; remove `disabled: true` from {server.file}.")
    return server


def known_server(name: str, settings: Settings) -> McpServerDefinition:
    """Return the server with this name, which may be disabled: its login can still be made and ended.

    Raises:
        DefinitionInvalid: its file cannot be used.
        BadRequest: there is none.
    """
    servers, broken = read_servers(settings.mcp_servers_folders)
    own: DefinitionInvalid | None = next((error for error in broken if name_of(error) == name), None)
    if own is not None:
        raise own
    if name not in servers:
        hint = f" Known servers: {', '.join(sorted(servers))}." if servers else " There is none in config/mcp_servers."
        raise BadRequest(f"there is no MCP server '{visible(name[:80])}'.{did_you_mean(name, servers)}{hint}")
    return servers[name]


WORDS = {
    "invalid": "its file cannot be used",
    "needs_login": "needs a login",
    "backing_off": "backing off",
    "starting": "starting",
    "ready": "ready",
    "idle": "idle",
    "configured": "not used yet",
    "disabled": "disabled",
}


def state_text(row: Mapping[str, Any]) -> str:
    """Return a server's state with what belongs to it, on one line."""
    state = str(row["state"])
    parts = [WORDS.get(state, visible(state))]
    if row.get("sessions", 0) > 1:
        parts.append(f"{row['sessions']} sessions")
    if row.get("tools") is not None:
        parts.append(f"{row['tools']} tools")
    if row.get("changed"):
        parts.append(f"changed: {visible(', '.join(row['changed']))}")
    if state == "backing_off":
        left_s = row.get("next_try_s", 0)
        parts.append(f"again in {left_s:g} s" if left_s else "the next call tries again")
    text = ", ".join(parts)
    return f"{text}: {visible(' '.join(row['reason'].split()))}" if row.get("reason") else text


SERVERS = Table(
    "name",
    (
        Column("NAME", "name"),
        Column("TRANSPORT", "transport", worth=60),
        Column("TOOLS", lambda row: row.get("pinned_tools") or None, worth=70, is_number=True),
        Column("MANIFEST", lambda row: (row.get("manifest") or "")[:MANIFEST_CHARS], worth=50),
        Column("STATE", state_text),
    ),
)
