"""What the lists of a principal's rows share: whose rows they have, their order and pages, and no null fields."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, Table, and_, tuple_

from config.identity.principal import Principal


def is_of(principal: Principal, table: Table) -> ColumnElement[bool]:
    """Return the condition that a row belongs to this principal."""
    return and_(table.c.tenant == principal.tenant, table.c.principal == principal.id)


def newest_first(
    query: Select[Any],
    time_ms: ColumnElement[int],
    id_: ColumnElement[str],
    *,
    limit: int,
    before_ms: int | None,
    before_id: str,
) -> Select[Any]:
    """Return a page of the rows, the newest first: those after the row with this time (ms) and id, or the first."""
    if before_ms is not None:  # several rows may have one millisecond
        query = query.where(tuple_(time_ms, id_) < tuple_(before_ms, before_id))
    return query.order_by(time_ms.desc(), id_.desc()).limit(limit)


def present(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields without None values: the wire has no nulls."""
    return {name: value for name, value in fields.items() if value is not None}
