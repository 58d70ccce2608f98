"""Pages of rows of unbounded size: as many rows as fit into 1 MB of UTF-8, and at least one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Row, Select, func, select

PAGE_BYTES = 1024 * 1024


@dataclass(frozen=True, kw_only=True, eq=False)
class Pages:
    """A query with an order and a limit; a page also ends where the rows' text exceeds ``PAGE_BYTES``."""

    query: Select[Any]
    text: Column[Any]
    """The column whose size counts; it may be null."""
    order: tuple[ColumnElement[Any], ...]

    def read(self, connection: Connection, values: Mapping[str, Any] | None = None) -> tuple[list[Row[Any]], bool]:
        """Return the rows that fit, and whether the page was shortened because of their size."""
        rows, size_bytes = [], 0
        is_postgres = connection.dialect.name == "postgresql"
        for row in connection.execute(self._cut if is_postgres else self.query, values):
            rows.append(row)
            # Postgres's byte count decides here too: with two different counts, rows between them would be lost.
            text = row._mapping[self.text.name] or ""
            size_bytes = row.upto_bytes if is_postgres else size_bytes + len(text.encode())
            if size_bytes >= PAGE_BYTES:
                return rows, True
        return rows, False

    @cached_property
    def _cut(self) -> Select[Any]:
        """The query with the size limit in SQL: Postgres's client reads all rows at once, SQLite's one by one."""
        size = func.coalesce(func.octet_length(self.text), 0)
        upto = func.sum(size).over(order_by=self.order)
        row_number = func.row_number().over(order_by=self.order)
        parts = upto.label("upto_bytes"), (upto - size).label("before_bytes"), row_number.label("place")
        counted = self.query.add_columns(*parts).subquery()
        return select(counted).where(counted.c.before_bytes < PAGE_BYTES).order_by(counted.c.place)
