"""What the MCP client keeps: sealed logins of each tenant and server, and the definitions of tools that may be used."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from bus.identity.audit.entry import Action
from bus.identity.audit.recording import record
from config.database.engine import WALL_MS, Database
from config.database.tables import mcp_logins, mcp_manifests
from config.identity.principal import Principal


@dataclass(frozen=True, kw_only=True, slots=True)
class SealedLogin:
    """A login as it is stored."""

    id: str
    """Another one for each login."""
    bound_to: str
    """SHA-256 of the server's address and of who the client is."""
    version: int
    """Counts the tokens of this login."""
    key_name: str
    """The key that sealed it."""
    sealed: str = field(repr=False)
    expires_ms: int | None = None
    """When the access token does; None where that is not known."""


class McpLogins:
    """The logins of the deployment; each call uses a connection of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, tenant: str, server: str) -> SealedLogin | None:
        """Return the login of a tenant at a server; None where there is none."""
        table = mcp_logins.c
        columns = (table.id, table.bound_to, table.version, table.key_name, table.sealed, table.expires_ms)
        with self._database.read() as connection:
            row = connection.execute(select(*columns).where(_place(tenant, server))).first()
        return None if row is None else SealedLogin(**row._asdict())

    def put(self, tenant: str, server: str, login: SealedLogin, *, by: str, host: str = "") -> None:
        """Store a login that the principal ``by`` made at a host, in place of the one before; the audit log has it."""
        make = sqlite.insert if self._database.is_sqlite else postgresql.insert
        columns = {**_columns(login), "id": login.id, "bound_to": login.bound_to, "renewing_until_ms": None}
        row = make(mcp_logins).values(tenant=tenant, server=server, created_ms=WALL_MS, changed_ms=WALL_MS, **columns)
        changed = {**columns, "created_ms": WALL_MS, "changed_ms": WALL_MS}
        with self._database.write() as connection:
            before = connection.execute(select(mcp_logins.c.id).where(_place(tenant, server))).first()
            connection.execute(row.on_conflict_do_update(index_elements=["tenant", "server"], set_=changed))
            actor, done = Principal(tenant=tenant, id=by), Action.MCP_LOGIN_CREATED
            replaced = before is not None
            record(connection, actor, done, "mcp_server", server, login=login.id, host=host, replaced=replaced)

    def claim(self, tenant: str, server: str, login: SealedLogin, for_ms: int) -> bool:
        """Return whether this process alone may renew the tokens that it knows, for so long."""
        table = mcp_logins.c
        is_free = or_(table.renewing_until_ms.is_(None), table.renewing_until_ms < WALL_MS)
        taken = update(mcp_logins).where(_same(tenant, server, login), is_free)
        return self._changes(taken.values(renewing_until_ms=WALL_MS + for_ms))

    def renew(self, tenant: str, server: str, login: SealedLogin, renewed: SealedLogin) -> bool:
        """Put renewed tokens in the place of those that the process knows; return whether these were still there."""
        changed = {**_columns(renewed), "renewing_until_ms": None, "changed_ms": WALL_MS}
        return self._changes(update(mcp_logins).where(_same(tenant, server, login)).values(**changed))

    def release(self, tenant: str, server: str, login: SealedLogin) -> None:
        """Let others renew the tokens, which this process could not."""
        self._changes(update(mcp_logins).where(_same(tenant, server, login)).values(renewing_until_ms=None))

    def remove(self, tenant: str, server: str, login: SealedLogin) -> bool:
        """Delete a login whose tokens are these, since the server no longer takes them; return whether it was there."""
        return self._changes(delete(mcp_logins).where(_same(tenant, server, login)))

    def end(self, tenant: str, server: str, *, by: str) -> bool:
        """Delete a login that the principal ``by`` ends; the audit log has it. Return whether there was one."""
        with self._database.write() as connection:
            condition = _place(tenant, server)
            login = connection.execute(select(mcp_logins.c.id).where(condition)).scalar()
            if login is None:
                return False
            connection.execute(delete(mcp_logins).where(condition))
            actor = Principal(tenant=tenant, id=by)
            record(connection, actor, Action.MCP_LOGIN_REMOVED, "mcp_server", server, login=login)
            return True

    def _changes(self, statement: Any) -> bool:
        with self._database.write() as connection:
            return connection.execute(statement).rowcount > 0


def _place(tenant: str, server: str) -> ColumnElement[bool]:
    return and_(mcp_logins.c.tenant == tenant, mcp_logins.c.server == server)


def _same(tenant: str, server: str, login: SealedLogin) -> ColumnElement[bool]:
    return and_(_place(tenant, server), mcp_logins.c.id == login.id, mcp_logins.c.version == login.version)


def _columns(login: SealedLogin) -> dict[str, Any]:
    tokens = {"key_name": login.key_name, "sealed": login.sealed, "expires_ms": login.expires_ms}
    return {**tokens, "version": login.version}


# --- the definitions of tools that may be used: the first that was seen, or one that a person accepted


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
