"""The tools that workers have loaded, for callers that must not import them; each worker writes its own once.

A tool is listed while a worker that has it is alive. While no worker is alive, those of the last ones are listed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson
from sqlalchemy import ColumnElement, delete, exists, insert, select

from bus.journal.ownership.workers import ALIVE_MS
from config.database.engine import WALL_MS, Database
from config.database.tables import tools, workers
from config.ids import canonical_digest


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolMetadata:
    """What a tool says of itself besides its schema; see ``agents.tools.tool.Tool``."""

    title: str | None = None
    """The sentence that a call is shown as, with ``{argument}`` in it; None: the call is shown by its name."""
    version: str = "1.0.0"
    maintainer: str = ""
    kind: str | None = None
    classification: str = "INTERNAL"
    roles: Sequence[str] = ()
    """The roles of which a run's principal needs one; none: all principals."""
    output_schema: Mapping[str, Any] | None = None
    hosts: Sequence[str] | None = None
    """The hosts that its calls may connect to; None: no limit of its own."""
    secrets: Sequence[str] = ()
    """The names of its secrets."""
    labels: Sequence[str] = ()
    needs_approval: bool = False
    mcp: Mapping[str, str] | None = None
    """Of a tool of an MCP server: ``server``, ``tool``, its name there, and ``manifest``, its definition's digest."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedTool:
    """A tool as the agents of a worker use it."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    """JSON Schema of the arguments."""
    effect: str
    timeout_s: float
    """Seconds that a call may take."""
    agents: Sequence[str]
    """The ids of the agents that use it like this."""
    metadata: ToolMetadata = ToolMetadata()

    @property
    def digest(self) -> str:
        """SHA-256 of everything that the model or a caller sees of the tool."""
        fields: dict[str, Any] = {
            "name": self.name,
            "description": self.description,
            "input_schema": dict(self.input_schema),
        }
        fields |= {"effect": self.effect, "timeout_s": self.timeout_s, "metadata": _plain(self.metadata)}
        return canonical_digest(fields)


class Tools:
    """The tools of the workers; each call uses a connection of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def replace(self, worker_id: str, loaded: Sequence[LoadedTool]) -> None:
        """Write the tools of a worker whose row is there, and delete those of workers that have gone."""
        rows = [_row(worker_id, entry) for entry in {tool_entry.digest: tool_entry for tool_entry in loaded}.values()]
        with self._database.write() as connection:
            connection.execute(delete(tools).where(~_is_of_living() | (tools.c.worker_id == worker_id)))
            if rows:
                connection.execute(insert(tools), rows)

    def listed(self, agents: Collection[str]) -> list[dict[str, Any]]:
        """Return the tools of these agents, by name."""
        query = select(tools).order_by(tools.c.name, tools.c.digest)
        with self._database.read() as connection:
            rows = connection.execute(query.where(_is_of_living())).all() or connection.execute(query).all()
        by_digest: dict[str, dict[str, Any]] = {}
        for row in rows:
            entry = by_digest.setdefault(row.digest, _shown(row))
            entry["agents"] = sorted({*entry["agents"], *(set(orjson.loads(row.agents_json)) & set(agents))})
        return [tool for tool in by_digest.values() if tool["agents"]]


def _is_of_living() -> ColumnElement[bool]:
    is_alive = (workers.c.id == tools.c.worker_id) & (workers.c.seen_ms > WALL_MS - ALIVE_MS)
    return exists().where(is_alive)


def _row(worker_id: str, tool: LoadedTool) -> dict[str, Any]:
    return {
        "worker_id": worker_id,
        "digest": tool.digest,
        "name": tool.name,
        "description": tool.description,
        "schema_json": orjson.dumps(dict(tool.input_schema)).decode(),
        "effect": tool.effect,
        "timeout_s": tool.timeout_s,
        "agents_json": orjson.dumps(list(tool.agents)).decode(),
        "metadata_json": orjson.dumps(_plain(tool.metadata)).decode(),
    }


def _plain(metadata: ToolMetadata) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(metadata).items()}


def _shown(row: Any) -> dict[str, Any]:
    return {
        "name": row.name,
        "description": row.description,
        "input_schema": orjson.loads(row.schema_json),
        "effect": row.effect,
        "timeout_s": row.timeout_s,
        "digest": row.digest,
        "agents": [],
        **_plain(ToolMetadata()),
        **orjson.loads(row.metadata_json or "{}"),
    }
