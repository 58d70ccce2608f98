"""Ids by a part of them: what a person copies from a list, and what a shell completes."""

from __future__ import annotations

from typing import Any, Literal

from sqlalchemy import Select, func, null, or_, select

from bus.identity.access import rows_for
from config.database.engine import Database
from config.database.tables import api_keys, approvals, grants, runs, sticky_approvals, summaries, threads, workers
from config.identity.principal import Principal, Verb

IdKind = Literal["run", "thread", "approval", "key", "grant", "sticky", "summary", "worker"]
NO_TITLE = null().label("title")
MOST = 20
"""Ids that are returned."""


def ids_like(database: Database, principal: Principal, kind: IdKind, part: str) -> list[tuple[str, str | None]]:
    """Return the ids that begin or end with ``part``, and the titles of runs and threads; an equal id is the first.

    They are those that a principal sees, which is the terminal's own: it manages the keys of all tenants.
    """
    query = id_query(principal, kind, part)
    with database.read() as connection:
        rows: list[tuple[str, str | None]] = [(str(row.id), row.title) for row in connection.execute(query)]
    return [row for row in rows if row[0].startswith(part) or row[0].endswith(part)]  # LIKE of SQLite ignores case


def id_query(principal: Principal, kind: IdKind, part: str) -> Select[Any]:
    """Return the query of ``ids_like``, from which a shell's completion is made, too."""
    query = _ids(principal, kind)
    id_ = query.selected_columns[0]
    matches = or_(id_.startswith(part, autoescape=True), id_.endswith(part, autoescape=True))
    return query.where(matches).order_by(func.length(id_), id_.desc()).limit(MOST)


def _ids(principal: Principal, kind: IdKind) -> Select[Any]:
    seen = rows_for(principal, Verb.SEE, runs)
    match kind:
        case "run":
            return select(runs.c.id, runs.c.title).where(seen)
        case "thread":
            own = threads.c.principal == principal.id, threads.c.parent_id.is_(None)
            return select(threads.c.id, threads.c.title).where(rows_for(principal, Verb.SEE, threads), *own)
        case "approval":
            return select(approvals.c.id, NO_TITLE).join(runs, runs.c.id == approvals.c.run_id).where(seen)
        case "summary":
            key = summaries.c.thread_key == threads.c.key
            return select(summaries.c.id, NO_TITLE).join(threads, key).where(rows_for(principal, Verb.SEE, threads))
        case "key":
            return select(api_keys.c.id, NO_TITLE)
        case "worker":
            return select(workers.c.id, workers.c.host.label("title"))
    table = grants if kind == "grant" else sticky_approvals
    return select(table.c.id, NO_TITLE).where(table.c.tenant == principal.tenant)
