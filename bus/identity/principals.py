"""The principals that have had a credential, those that are disabled, and the tenants that are known."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import orjson
from sqlalchemy import Connection, Table, select, tuple_
from sqlalchemy.dialects import postgresql, sqlite

from bus.identity.audit.entry import Action
from bus.identity.audit.recording import record
from config.clock import stamp
from config.database.engine import WALL_MS
from config.database.tables import api_keys, audit, principals, runs, sessions, threads
from config.identity.principal import Principal
from config.text.stored_texts import stored_name

PrincipalKey = tuple[str, str]
"""Tenant and id."""


def register(connection: Connection, tenant: str, principal_id: str) -> None:
    """Add the principal unless it is known."""
    row = {"tenant": tenant, "id": principal_id, "created_ms": WALL_MS}
    connection.execute(_insert(connection).values(**row).on_conflict_do_nothing())


def sign_in(connection: Connection, principal: Principal) -> None:
    """Record the roles that a principal has by its sign-in; they are those of all its sessions from now on."""
    roles = orjson.dumps(sorted(principal.roles)).decode()
    row = {"tenant": principal.tenant, "id": principal.id, "created_ms": WALL_MS, "roles_json": roles}
    adding = _insert(connection).values(**row)
    keys = ["tenant", "id"]
    connection.execute(adding.on_conflict_do_update(index_elements=keys, set_={"roles_json": roles}))


def disable(connection: Connection, tenant: str, principal_id: str, *, by: str, disabled: bool = True) -> None:
    """Refuse, or accept again, every credential of a principal, also of one that has had none yet."""
    stored_name(principal_id, "the name of the principal")
    row = {"tenant": tenant, "id": principal_id, "created_ms": WALL_MS, "disabled": disabled}
    adding = _insert(connection).values(**row)
    keys = ["tenant", "id"]
    was_disabled = bool(disabled_among(connection, [(tenant, principal_id)]))
    connection.execute(adding.on_conflict_do_update(index_elements=keys, set_={"disabled": disabled}))
    if was_disabled != disabled:
        who = Principal(tenant=tenant, id=by)
        record(connection, who, Action.PRINCIPAL_CHANGED, "principal", principal_id, disabled=disabled)


def known(connection: Connection, tenant: str | None) -> list[dict[str, Any]]:
    """Return the principals of a tenant, or of all, as lists show them."""
    query = select(principals).order_by(principals.c.tenant, principals.c.id)
    if tenant is not None:
        query = query.where(principals.c.tenant == tenant)
    return [
        {"tenant": row.tenant, "id": row.id, "disabled": row.disabled, "created_at": stamp(row.created_ms)}
        for row in connection.execute(query)
    ]


def disabled_among(connection: Connection, keys: Collection[PrincipalKey]) -> set[PrincipalKey]:
    """Return those of the principals that are disabled."""
    if not keys:
        return set()
    query = select(principals.c.tenant, principals.c.id).where(
        tuple_(principals.c.tenant, principals.c.id).in_(list(keys)), principals.c.disabled
    )
    return {(row.tenant, row.id) for row in connection.execute(query)}


def _insert(connection: Connection) -> Any:
    return (sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert)(principals)


# --- which tenants the database knows


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
