"""How many open and queued runs a principal and a tenant may have: checked in the commit that accepts another.

SQLite writes one transaction at a time, so the limits are exact there. On Postgres, transactions that accept runs at
the same moment do not see each other, so a limit can be exceeded by the runs that are accepted at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Select, bindparam, literal, select

from bus.journal.errors import too_many_runs
from config.database.tables import runs
from config.identity.principal import Principal
from config.settings import Settings
from config.settings.limits import LimitName

_OPEN = (runs.c.ended_ms.is_(None), runs.c.tenant == bindparam("tenant_"))
_OWN, _QUEUED = runs.c.principal == bindparam("principal_"), runs.c.status == "queued"
_CONDITIONS: dict[LimitName, tuple[Any, ...]] = {
    "principal_open_runs": (*_OPEN, _OWN),
    "principal_queued_runs": (*_OPEN, _OWN, _QUEUED),
    "tenant_open_runs": _OPEN,
    "tenant_queued_runs": (*_OPEN, _QUEUED),
}
_WITH_RUNNING: tuple[LimitName, ...] = ("principal_open_runs", "tenant_open_runs")
RunLimits = Mapping[LimitName, int]
"""The limits that a tenant has; those that it does not have are left out."""


def run_limits(settings: Settings, tenant: str) -> RunLimits:
    """Return the limits on a tenant's runs."""
    limits = {name: settings.limit(name, tenant) for name in _CONDITIONS}
    return {name: limit for name, limit in limits.items() if limit}


def require_room(connection: Connection, principal: Principal, limits: RunLimits, *, ending: int = 0) -> None:
    """Return if the principal and its tenant may have another run.

    ``ending``: how many of the running ones are not counted, since the new run is what they are stopped for. Other
    runs that are being stopped count: a tool that ends late would let a principal have any number of them.

    Raises:
        TOO_MANY_RUNS: one of them has as many as a limit allows.
    """
    if not limits:
        return
    places = {f"{name}_": limit - 1 + (ending if name in _WITH_RUNNING else 0) for name, limit in limits.items()}
    row = connection.execute(
        _statement(tuple(limits)), {"tenant_": principal.tenant, "principal_": principal.id, **places}
    ).one()
    for name, is_full in row._mapping.items():
        if is_full:
            raise too_many_runs(principal, name, limits[name])


@lru_cache
def _statement(names: tuple[LimitName, ...]) -> Select[Any]:
    """Return a query with a column for each limit: whether there is a run at its last place. It counts no further."""
    return select(
        *(
            select(literal(1))
            .where(*_CONDITIONS[name])
            .limit(1)
            .offset(bindparam(f"{name}_"))
            .scalar_subquery()
            .label(name)
            for name in names
        )
    )
