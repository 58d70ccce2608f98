"""What lists and logs are read by: whose rows, as of when, in which order, and how many at a time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from sqlalchemy import Column, ColumnElement, Connection, Label, Row, Select, and_, exists, func, or_, select, tuple_

from bus.identity.access import rows_for
from config.database.tables import runs, thread_agents, threads
from config.identity.principal import Principal, Verb
from config.tracing import is_trace_id

ANY_OWNER = "*"


class MessagesUntil(NamedTuple):
    """A past state of a thread. Messages are only ever added, each with the next number of its thread."""

    number: int = 2**31 - 1
    """The number of the newest message."""
    time_ms: int = 2**53
    """When the newest message was added at the latest."""


NOW = MessagesUntil()


ORDERS = ("newest", "oldest", "longest", "dearest")
"""The orders of a list of runs."""


class RunPlace(NamedTuple):
    """Where a list of runs continues: what the last run seen is ordered by."""

    value: float
    """A time or a length in ms, or a cost in USD."""
    run_id: str
    order: str


class StepPlace(NamedTuple):
    """Where a list of steps continues: what the last step seen is ordered by."""

    group: int
    """Of items: 0 for those that are not done, which come first. Otherwise 0."""
    number: int
    """Of items their index, otherwise the step's number."""


def threads_of(principal: Principal, owner: str | None) -> ColumnElement[bool]:
    """Return the condition that the principal sees a thread, and that it is ``owner``'s; None: the principal's own.

    A thread's id is a name that its owner chose, so that only owner and id together name one thread.
    """
    seen = rows_for(principal, Verb.SEE, threads)
    if principal.agents is not None:
        seen = and_(seen, ~exists(agents_beside(principal.agents).where(thread_agents.c.thread_key == threads.c.key)))
    return seen if owner == ANY_OWNER else and_(threads.c.principal == (owner or principal.id), seen)


def agents_beside(agents: Collection[str]) -> Select[Any]:
    """Return the query for other agents of threads, whose messages a credential for these agents does not read."""
    return select(thread_agents.c.agent_id).where(thread_agents.c.agent_id.not_in(sorted(agents)))


def has_correlation(correlation_id: str) -> ColumnElement[bool]:
    """Return the condition that a run has this correlation id: the one chosen for it, or else its trace id."""
    chosen = runs.c.correlation_id == correlation_id
    if not is_trace_id(correlation_id):
        return chosen
    return or_(chosen, and_(runs.c.correlation_id.is_(None), runs.c.trace_id == correlation_id))


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


# --- pages


PAGE_BYTES = 1024 * 1024


@dataclass(frozen=True, kw_only=True, eq=False)
class Pages:
    """A query with an order and a limit; a page also ends where the rows' text exceeds ``PAGE_BYTES``."""

    query: Select[Any]
    text: Column[Any] | Label[str]
    """What has the size that counts, of the query's columns; it may be null."""
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
