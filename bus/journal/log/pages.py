"""Pages of rows whose size a client or a model decides: as many as fit into a megabyte, and one at least."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import Column, Connection, Row, Select, func, select

PAGE_BYTES = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Pages:
    """A query with an order and a limit, that is cut also where the text of its rows gets too long."""

    query: Select[Any]
    text: Column[str]
    order: tuple[Column[Any], ...]

    def read(self, connection: Connection, values: Mapping[str, Any]) -> tuple[list[Row[Any]], bool]:
        """Return the rows that fit, and whether the page was cut because of their size."""
        rows, size = [], 0
        is_postgres = connection.dialect.name == "postgresql"
        for row in connection.execute(_cut(self) if is_postgres else self.query, values):
            rows.append(row)
            size += len(row._mapping[self.text.name])
            if size >= PAGE_BYTES:
                return rows, True
        return rows, False


@lru_cache(maxsize=8)
def _cut(pages: Pages) -> Select[Any]:
    """Return the query with the cut made by Postgres: its client takes all rows at once, SQLite's one by one."""
    size = func.octet_length(pages.text)
    counted = pages.query.add_columns(
        (func.sum(size).over(order_by=list(pages.order)) - size).label("size_before")
    ).subquery()
    order = [counted.c[column.name] for column in pages.order]
    return select(counted).where(counted.c.size_before < PAGE_BYTES).order_by(*order)
