"""The definitions of MCP servers' tools that may be used: the first that was seen, or one that a person accepted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite

from config.database.engine import WALL_MS, Database
from config.database.tables import mcp_manifests


class McpManifests:
    """One definition for each server and tool of the deployment; each call uses a connection of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def pinned(self, server: str) -> dict[str, str]:
        """Return the definitions of a server's tools, as JSON by the tool's name."""
        query = select(mcp_manifests.c.tool, mcp_manifests.c.content_json).where(mcp_manifests.c.server == server)
        with self._database.read() as connection:
            return {row.tool: row.content_json for row in connection.execute(query)}

    def accepted(self, servers: Collection[str]) -> tuple[tuple[str, str, str], ...]:
        """Return server, tool and digest of each definition of these servers that a person accepted."""
        columns = (mcp_manifests.c.server, mcp_manifests.c.tool, mcp_manifests.c.digest)
        query = select(*columns).where(mcp_manifests.c.server.in_(servers), mcp_manifests.c.changed_ms.is_not(None))
        with self._database.read() as connection:
            return tuple((row.server, row.tool, row.digest) for row in connection.execute(query.order_by(*columns)))

    def first_seen(self, servers: Collection[str]) -> dict[tuple[str, str], int]:
        """Return when each tool of these servers was first seen, in ms since 1970."""
        columns = (mcp_manifests.c.server, mcp_manifests.c.tool, mcp_manifests.c.created_ms)
        query = select(*columns).where(mcp_manifests.c.server.in_(servers))
        with self._database.read() as connection:
            return {(row.server, row.tool): row.created_ms for row in connection.execute(query)}

    def digests(self, server: str) -> dict[str, str]:
        """Return the digests of the definitions of a server's tools, by the tool's name."""
        query = select(mcp_manifests.c.tool, mcp_manifests.c.digest).where(mcp_manifests.c.server == server)
        with self._database.read() as connection:
            return {row.tool: row.digest for row in connection.execute(query)}

    def pin(self, server: str, seen: Mapping[str, tuple[str, str]]) -> dict[str, str]:
        """Store those tools that are not known, each a digest and JSON, and return all that are pinned."""
        pins = self.pinned(server)
        fresh = [_row(server, tool, *entry) for tool, entry in seen.items() if tool not in pins]
        if not fresh:
            return pins
        make = sqlite.insert if self._database.is_sqlite else postgresql.insert
        with self._database.write() as connection:
            connection.execute(make(mcp_manifests).values(fresh).on_conflict_do_nothing())
        return self.pinned(server)

    def accept(self, server: str, tool: str, digest: str, content_json: str) -> None:
        """Put a definition in the place of the pinned one."""
        make = sqlite.insert if self._database.is_sqlite else postgresql.insert
        row = make(mcp_manifests).values(**_row(server, tool, digest, content_json))
        changed = {"digest": digest, "content_json": content_json, "changed_ms": WALL_MS}
        with self._database.write() as connection:
            connection.execute(row.on_conflict_do_update(index_elements=["server", "tool"], set_=changed))


def _row(server: str, tool: str, digest: str, content_json: str) -> dict[str, Any]:
    columns = {"server": server, "tool": tool, "digest": digest, "content_json": content_json}
    return {**columns, "created_ms": WALL_MS}
