"""The tools of an installation: as its living workers have loaded them, or as this process loads them."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import asdict
from typing import Any

from agents.compatibility import LoadedAgent, try_load
from agents.process import Process
from bus.journal.stores import LoadedTool
from handlers.worker.tool_catalogue import loaded_tools

log = logging.getLogger(__name__)


class OwnTools:
    """Finds the tools of agents; those that this process loads are kept while the definitions stay the same."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._loaded: dict[str, LoadedAgent | None] = {}
        """By the digest of the definition; None: it cannot be loaded."""

    def of(self, agent_ids: Collection[str]) -> list[dict[str, Any]]:
        """Return the tools of these agents, in the form of the catalogue."""
        journal = self._process.journal
        if journal.stores.workers.alive():
            return journal.stores.tools.listed(agent_ids)
        loaded = (self._load(agent_id) for agent_id in agent_ids)
        tools = loaded_tools(row for row in loaded if row is not None)
        return sorted((_shown(row) for row in tools), key=lambda row: (row["name"], row["digest"]))

    def _load(self, agent_id: str) -> LoadedAgent | None:
        digest = self._process.registry.get(agent_id).digest
        if digest not in self._loaded:
            agent = try_load(self._process, agent_id)
            if not isinstance(agent, tuple):
                log.warning("the tools of agent '%s' are left out: %s", agent_id, agent)
            self._loaded[digest] = agent if isinstance(agent, tuple) else None
        return self._loaded[digest]


def _shown(tool: LoadedTool) -> dict[str, Any]:
    facts = {name: getattr(tool, name) for name in ("name", "description", "input_schema", "effect", "timeout_s")}
    return facts | {"digest": tool.digest, "agents": sorted(tool.agents), **asdict(tool.metadata)}
