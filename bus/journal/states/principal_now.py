"""The principal of a run as it is when an owner picks the run up, not as it was when the run was accepted.

Roles are narrowed and never widened: a run has the roles with which it was started as far as its principal still has
them. A run that was started with an API key has none once that key has ended; one that a person started has those of
the person's last sign-in. Of other credentials the database has no roles, so theirs are as they were.
"""

from __future__ import annotations

from typing import Any

import orjson
from sqlalchemy import ColumnElement, and_, literal_column, or_, select

from bus.identity.credentials.credential import CredentialKind
from config.database.engine import WALL_MS
from config.database.tables import api_keys, grants, principals
from config.identity.principal import Role

# Columns of the run, as text: in SQLite's RETURNING, SQLAlchemy writes columns without their tables, and there
# ``tenant`` would be the inner query's own.
_RUN: dict[str, ColumnElement[Any]] = {
    name: literal_column(f"runs.{name}")
    for name in ("id", "tenant", "principal", "agent_id", "credential_id", "grant_id")
}
_IS_PRINCIPAL = principals.c.tenant == _RUN["tenant"], principals.c.id == _RUN["principal"]

IS_DISABLED: ColumnElement[bool] = select(principals.c.id).where(*_IS_PRINCIPAL, principals.c.disabled).exists()
"""Whether a run's principal is disabled now."""
_ROLES_OF_SIGN_IN = select(principals.c.roles_json).where(*_IS_PRINCIPAL).scalar_subquery()
_ROLES_OF_KEY = (
    select(api_keys.c.roles_json)
    .where(
        and_(api_keys.c.id == _RUN["credential_id"], api_keys.c.revoked_ms.is_(None)),
        or_(api_keys.c.expires_ms.is_(None), api_keys.c.expires_ms > WALL_MS),
    )
    .scalar_subquery()
)
_PRIVILEGED_FOR_MS = (
    select(grants.c.expires_ms - WALL_MS)
    .where(
        *(grants.c.id == _RUN["grant_id"], grants.c.run_id == _RUN["id"], grants.c.revoked_ms.is_(None)),
        *(grants.c[name] == _RUN[name] for name in ("tenant", "principal", "agent_id")),
    )
    .scalar_subquery()
)
NOW = (
    _PRIVILEGED_FOR_MS.label("privileged_for_ms"),
    IS_DISABLED.label("is_disabled"),
    _ROLES_OF_SIGN_IN.label("sign_in_roles_json"),
    _ROLES_OF_KEY.label("key_roles_json"),
)
"""What a claim reads of the run's principal."""
_ROLES = frozenset(Role)


def roles_now(row: Any) -> frozenset[Role]:
    """Return the roles that a claimed run has, from its row with ``NOW``; roles that this code does not know grant
    nothing."""
    started = _roles(row["roles_json"])
    if row["credential"] == CredentialKind.KEY:
        return started & _roles(row["key_roles_json"])
    if row["credential"] == CredentialKind.SESSION:
        return started & _roles(row["sign_in_roles_json"])
    return started


def _roles(roles_json: str | None) -> frozenset[Role]:
    names = orjson.loads(roles_json) if roles_json is not None else []
    return frozenset([Role(name) for name in names if name in _ROLES])
