"""The tools whose definition is not the accepted one, as this process has last seen them."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping

from config.forks import after_fork

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
