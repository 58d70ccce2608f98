"""What the journal has of an agent's MCP servers: the definitions that persons accepted, and which tool came first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from agents.tools.mcp import PREFIX
from agents.tools.mcp.catalogue.names import Origin
from agents.tools.mcp.stores import opened_journal
from bus.journal import Journal
from config.definitions.mcp_names import identity_of
from config.definitions.mcp_server import read_servers
from config.settings import Settings

Accepted = tuple[tuple[str, str, str], ...]
"""A server, a tool and the digest of the definition that a person accepted for it, of each such tool."""


def accepted_by_persons(paths: Iterable[str]) -> Accepted:
    """Return the definitions in force that are not the first ones, of the servers that an agent's ``tools`` name.

    They are read for each run, so a definition that is accepted in one worker reaches the models of all at the next
    run. What is seen first needs no renewal: the tools are built from it.
    """
    servers = _servers_in(paths)
    journal = _journal() if servers else None
    return journal.mcp_manifests.accepted(servers) if journal is not None else ()


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
        for (server, tool), at_ms in journal.mcp_manifests.first_seen(named).items()
        if not {f"{PREFIX}{server}", identity_of(server, tool)}.isdisjoint(paths)
        and server in servers
        and servers[server].includes(tool)
    }


def _servers_in(paths: Iterable[str]) -> set[str]:
    return {path.removeprefix(PREFIX).partition("/")[0] for path in paths if path.startswith(PREFIX)}


def _journal() -> Journal | None:
    opened = opened_journal()
    return opened.journal if opened is not None else None
