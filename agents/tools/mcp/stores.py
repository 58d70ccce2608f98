"""The journal in which the client keeps definitions of tools and logins, and what it has of an agent's servers.

``agents/process.py`` opens it. That module stands above the tools, so it registers here how its journal is found.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, TypeVar

from agents.tools.mcp import PREFIX
from bus.journal import Journal
from config.definitions.mcp.names import identity_of, names_for_models
from config.definitions.mcp.server import read_servers
from config.forks import after_fork
from config.settings import Settings


class OpenedJournal(Protocol):
    """A journal, and the settings it was opened with."""

    @property
    def settings(self) -> Settings: ...

    @property
    def journal(self) -> Journal: ...


_Source = TypeVar("_Source", bound=Callable[[], OpenedJournal | None])
_source: Callable[[], OpenedJournal | None] | None = None


def journal_source(source: _Source) -> _Source:
    """Have ``opened_journal`` ask ``source``, which returns None until the process has opened a journal."""
    global _source
    _source = source
    return source


def opened_journal() -> OpenedJournal | None:
    """Return the journal of this process; None in a command that has opened none, such as ``./callboard agents``."""
    return _source() if _source is not None else None


# --- which tool came first, and so has its name


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


# --- the tools whose definition is not the accepted one, as this process has last seen them


MAX_TOOLS = 200
"""Changed tools of one server that are kept."""


class UnacceptedTools:
    """The changed tools of a process, by server. Safe for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[str, dict[str, str]] = defaultdict(dict)
        """Server -> tool -> the digest of the definition that the server has now."""

    def note(self, server: str, tool: str, now: str, accepted: str) -> None:
        """Note a tool's present digest beside the accepted one."""
        with self._lock:
            times = self._seen[server]
            if now == accepted:
                times.pop(tool, None)
            elif len(times) < MAX_TOOLS:
                times[tool] = now

    def changed(self, digests: Callable[[str], Mapping[str, str]]) -> dict[str, list[str]]:
        """Return the tools that still differ from what is accepted: another process may have accepted them.

        ``digests`` returns the accepted digests of a server's tools.
        """
        with self._lock:
            seen = {server: dict(tools) for server, tools in self._seen.items() if tools}
        for server, tools in seen.items():
            accepted = digests(server)
            for tool, now in tools.items():
                self.note(server, tool, now, accepted.get(tool, now))
        with self._lock:
            return {server: sorted(tools) for server, tools in self._seen.items() if tools}

    def forget(self) -> None:
        """Know of no changed tools."""
        self._lock, self._seen = threading.Lock(), defaultdict(dict)


UNACCEPTED = UnacceptedTools()


@after_fork
def _renew() -> None:
    """Forget what the parent has seen; its lock may be held by a thread that is not here."""
    UNACCEPTED.forget()
