"""Names of MCP servers' tools: of several tools with one name, the one that was seen first has it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from agents.tools.mcp import PREFIX
from agents.tools.mcp.stores import opened_journal
from config.definitions.mcp.names import identity_of, names_for_models
from config.definitions.mcp.server import read_servers
from config.settings import Settings

if TYPE_CHECKING:
    from bus.journal import Journal

Origin = tuple[str, str]
"""A server, and the name of its tool there."""
_NEVER: Mapping[Origin, int] = MappingProxyType({})
Accepted = tuple[tuple[str, str, str], ...]
"""A server, a tool and the digest of the definition that a person accepted for it, of each such tool."""


def accepted_by_persons(paths: Iterable[str]) -> Accepted:
    """Return the definitions in force that are not the first ones, of the servers that an agent's ``tools`` name.

    They are read for each run, so a definition that is accepted in one worker reaches the models of all at the next
    run. What is seen first needs no renewal: the tools are built from it.
    """
    servers = _servers_in(paths)
    journal = _journal() if servers else None
    return journal.stores.mcp_manifests.accepted(servers) if journal is not None else ()


def first_seen(paths: Collection[str], settings: Settings) -> Mapping[Origin, int]:
    """Return when each tool was first seen, in ms since 1970, that an agent's ``tools`` name or have named.

    Nothing in a process without a database, such as ``./callboard agents``.
    """
    named = _servers_in(paths)
    journal = _journal() if named else None
    if journal is None:
        return {}
    servers, _ = read_servers(settings.mcp_servers_folders)
    return {
        (server, tool): at_ms
        for (server, tool), at_ms in journal.stores.mcp_manifests.first_seen(named).items()
        if not {f"{PREFIX}{server}", identity_of(server, tool)}.isdisjoint(paths)
        and server in servers
        and servers[server].includes(tool)
    }


def _servers_in(paths: Iterable[str]) -> set[str]:
    return {path.removeprefix(PREFIX).partition("/")[0] for path in paths if path.startswith(PREFIX)}


def _journal() -> Journal | None:
    opened = opened_journal()
    return opened.journal if opened is not None else None


def names_of(tools: Sequence[tuple[str, Origin | None]], first_seen: Mapping[Origin, int] = _NEVER) -> list[str]:
    """Return the name of each tool, which is given by its present name and its origin (None: of no MCP server).

    A tool of no MCP server keeps its name. Of MCP servers' tools with one name the one that was seen first has it; the
    others get their server's name before it, and where that is another tool's, also a digest of their origin. So a
    tool that is listed later takes no name away. ``first_seen`` also has the tools that are absent at present,
    whose names no tool gets. The order of ``tools`` does not matter, and the same tool twice has one name.
    """
    never = float("inf")
    origins = {origin for _, origin in tools if origin is not None} | set(first_seen)
    taken = {name for name, origin in tools if origin is None}
    names: dict[Origin, str] = {}
    for origin in sorted(origins, key=lambda tool_key: (first_seen.get(tool_key, never), tool_key)):
        names[origin] = next(name for name in names_for_models(identity_of(*origin)) if name not in taken)
        taken.add(names[origin])
    return [name if origin is None else names[origin] for name, origin in tools]
