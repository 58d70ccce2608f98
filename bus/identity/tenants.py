"""Which tenants the database knows."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, Table, select

from config.database.tables import api_keys, audit, principals, runs, sessions, threads

OF_TENANTS: tuple[Table, ...] = (threads, runs, api_keys, principals, sessions, audit)
"""The tables in which a tenant that is used has rows."""


def unused(connection: Connection, names: Iterable[str]) -> list[str]:
    """Return those of which the database has nothing."""

    def is_used(name: str) -> bool:
        queries = (select(table.c.tenant).where(table.c.tenant == name).limit(1) for table in OF_TENANTS)
        return any(connection.execute(query).first() is not None for query in queries)

    return [name for name in names if not is_used(name)]


def with_keys(connection: Connection) -> set[str]:
    """Return the tenants that have, or had, an API key."""
    return set(connection.execute(select(api_keys.c.tenant).distinct()).scalars())
