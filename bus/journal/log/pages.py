"""Pages of rows of unbounded size: as many rows as fit into 1 MB of UTF-8, and at least one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import Column, Connection, Row, Select, func, select

PAGE_BYTES = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Pages:
    """A query with an order and a limit; a page also ends where the rows' text exceeds ``PAGE_BYTES``."""

    query: Select[Any]
    text: Column[str]
    order: tuple[Column[Any], ...]

    def read(self, connection: Connection, values: Mapping[str, Any]) -> tuple[list[Row[Any]], bool]:
        """Return the rows that fit, and whether the page was shortened because of their size."""
        rows, size_bytes = [], 0
        is_postgres = connection.dialect.name == "postgresql"
        for row in connection.execute(_cut(self) if is_postgres else self.query, values):
            rows.append(row)
            # Postgres's byte count decides here too: with two different counts, rows between them would be lost.
            size_bytes = row.upto_bytes if is_postgres else size_bytes + len(row._mapping[self.text.name].encode())
            if size_bytes >= PAGE_BYTES:
                return rows, True
        return rows, False


@lru_cache(maxsize=8)
def _cut(pages: Pages) -> Select[Any]:
    """Return the query with the size limit in SQL: Postgres's client reads all rows at once, SQLite's one by one."""
    size = func.octet_length(pages.text)
    upto = func.sum(size).over(order_by=list(pages.order))
    counted = pages.query.add_columns(upto.label("upto_bytes"), (upto - size).label("before_bytes")).subquery()
    order = [counted.c[column.name] for column in pages.order]
    return select(counted).where(counted.c.before_bytes < PAGE_BYTES).order_by(*order)
