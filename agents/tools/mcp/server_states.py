"""How a process's MCP servers are: what its files describe, and what its sessions have come to."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.tools.mcp.unaccepted_tools import UNACCEPTED
from config.definitions.errors import DefinitionUnreadable
from config.definitions.mcp.server import McpServerDefinition, name_of, read_servers
from config.definitions.yaml_lines import yaml_files
from config.errors import CallboardError
from config.redaction import redact_start
from config.settings import Settings
from config.watched_files import WatchedFiles

if TYPE_CHECKING:
    from bus.journal import Journal

log = logging.getLogger(__name__)

MAX_REASON = 500
"""Characters of the reason of a state."""


class McpState(StrEnum):
    """What is to be said of a server, the most urgent first: of several sessions the first of them is its state."""

    INVALID = "invalid"
    """Its file cannot be used."""
    NEEDS_LOGIN = "needs_login"
    """It accepts no request with the credentials that there are."""
    BACKING_OFF = "backing_off"
    """Its last sessions failed, and it is not time for another attempt, or no call has asked for one since."""
    STARTING = "starting"
    READY = "ready"
    IDLE = "idle"
    """It was used, and was closed since no call came; the next call starts it again."""
    CONFIGURED = "configured"
    """Nothing has used it in this process."""
    DISABLED = "disabled"
    """Its file says that it is not to be used."""


@dataclass(frozen=True, kw_only=True, slots=True)
class McpServerState:
    """How one server is in this process."""

    state: McpState
    transport: str = ""
    """``stdio``, ``http`` or ``sse``; empty where the file cannot be read."""
    sessions: int = 0
    """Sessions that are open: one for each tenant and set of credentials."""
    tools: int | None = None
    """Tools that it listed last, also those that are not included; None where it has not been asked."""
    reason: str = ""
    """Why there is no session, as a part of a sentence."""
    next_try_s: float = 0.0
    """Seconds until it is tried again, if a call comes."""
    changed: tuple[str, ...] = ()
    """Its tools whose definition is not the accepted one."""

    def plain(self) -> dict[str, Any]:
        """Return what there is to say, as JSON data."""
        fields = asdict(self) | {"state": str(self.state), "changed": list(self.changed)}
        fields["reason"] = redact_start(self.reason, MAX_REASON)
        return {name: value for name, value in fields.items() if value not in ("", None, [], 0, 0.0)}


Read = tuple[dict[str, McpServerDefinition], dict[str, str]]
"""The usable servers by name, and what is wrong with the files of the others, by the files' names."""


class ServerFiles:
    """The servers that the files describe; a file is read again only after it changed."""

    def __init__(self, folders: Collection[Path]) -> None:
        self._folders = folders
        self._files = WatchedFiles(lambda: yaml_files(folders))
        self._read: Read = ({}, {})

    def read(self) -> Read:
        """Return what the files say now."""
        changed = self._files.changed()
        if changed is not None:
            servers, broken = read_servers(self._folders)
            self._read = servers, {name_of(error): str(error) for error in broken}
            is_readable = not any(isinstance(error, DefinitionUnreadable) for error in broken)
            self._files.mark_read(changed if is_readable else None)
        return self._read


async def server_states(files: ServerFiles, journal: Journal) -> dict[str, dict[str, Any]]:
    """Return how each server is in this process, as JSON data by name; to be called on the process's loop.

    Nothing where that cannot be found out: the worker's row, which says that it lives, does not depend on it.
    """
    try:
        return await _states(files, journal)
    except CallboardError:
        raise
    except Exception:
        log.exception("the states of the MCP servers could not be read")
        return {}


async def _states(files: ServerFiles, journal: Journal) -> dict[str, dict[str, Any]]:
    servers, broken = await journal.loop.read(files.read)
    changed = await journal.loop.read(UNACCEPTED.changed, journal.stores.mcp_manifests.digests)
    states = {name: McpServerState(state=McpState.INVALID, reason=problem) for name, problem in broken.items()}
    states |= {name: of_file(server) for name, server in servers.items()}
    for name, state in _used().items():
        if name in servers and states[name].state is not McpState.DISABLED:
            states[name] = replace(state, transport=states[name].transport)
    return {
        name: replace(state, changed=tuple(changed.get(name, ()))).plain() for name, state in sorted(states.items())
    }


def fleet_states(fleet: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return how each server is in the living workers, by name: the most urgent state, and how many have which."""
    states: dict[str, list[Mapping[str, Any]]] = {}
    for worker in fleet:
        for name, state in worker["mcp_servers"].items():
            states.setdefault(name, []).append(state)
    return {name: _of_several(each) for name, each in sorted(states.items())}


def _of_several(each: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    order = [str(state) for state in McpState]
    first = min(each, key=lambda state: order.index(state["state"]) if state["state"] in order else len(order))
    counts = Counter(str(state["state"]) for state in each)
    merged = {**first, "workers": dict(sorted(counts.items()))}
    if sessions := sum(state.get("sessions", 0) for state in each):
        merged["sessions"] = sessions
    if changed := {tool for state in each for tool in state.get("changed", ())}:
        merged["changed"] = sorted(changed)
    return merged


def of_file(server: McpServerDefinition) -> McpServerState:
    """Return how a server is that nothing has used."""
    state = McpState.DISABLED if server.disabled else McpState.CONFIGURED
    return McpServerState(state=state, transport=transport_of(server))


def transport_of(server: McpServerDefinition) -> str:
    """Return ``stdio``, ``http`` or ``sse``."""
    return "stdio" if server.command is not None else server.transport


_Source = Callable[[], dict[str, McpServerState]]
_used: _Source = dict
"""Returns how the servers are that the running loop has used."""


def states_source(source: _Source) -> _Source:
    """Have the states of used servers asked of ``source``; importing the pool takes half a second, so it says so."""
    global _used
    _used = source
    return source


def files_of(settings: Settings) -> ServerFiles:
    """Return the files of the servers of a deployment."""
    return ServerFiles(settings.mcp_servers_folders)
