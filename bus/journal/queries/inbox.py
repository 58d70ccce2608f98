"""The open questions of all runs that a principal may decide about."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Select, func, select

from bus.identity.access import rows_for
from bus.journal.approvals import QUESTION, UNANSWERED, question_data
from bus.journal.paging.lists import newest_first, present
from bus.journal.paging.pages import Pages
from config.database.engine import wall_ms
from config.database.tables import approvals, runs
from config.identity.principal import Principal, Verb

HOUR_MS = 3_600_000
_ORDER = (approvals.c.created_ms.desc(), approvals.c.id.desc())
_RUN = (runs.c.thread_id, runs.c.agent_id, runs.c.principal, runs.c.title, runs.c.private)


def inbox(
    connection: Connection, principal: Principal, *, limit: int, before_ms: int | None = None, before_id: str = ""
) -> tuple[list[dict[str, Any]], bool]:
    """Return open questions, the newest first, each with its run; and whether the page was shortened for its size.

    They are those of waiting runs that the principal may decide about: its own, and with the role ``approver`` or
    ``admin`` others' of its tenant.
    """
    query: Select[Any] = select(*QUESTION, *_RUN).join(runs, runs.c.id == approvals.c.run_id)
    query = query.where(UNANSWERED, runs.c.status == "waiting", rows_for(principal, Verb.DECIDE, runs))
    time_ms, id_ = approvals.c.created_ms, approvals.c.id
    query = newest_first(query, time_ms, id_, limit=limit, before_ms=before_ms, before_id=before_id)
    rows, is_cut = Pages(query=query, text=approvals.c.arguments_json, order=_ORDER).read(connection)
    return [_with_run(row) for row in rows], is_cut


def asked_lately(connection: Connection, tenant: str, principal: str, most: int) -> int:
    """Return how many questions the runs of a principal asked within the last hour, at most ``most``."""
    ours = (runs.c.tenant == tenant, runs.c.principal == principal, approvals.c.kind != "unknown")
    lately = approvals.c.created_ms > wall_ms(connection) - HOUR_MS
    query = select(approvals.c.id).join(runs, runs.c.id == approvals.c.run_id).where(lately, *ours).limit(most)
    return int(connection.execute(select(func.count()).select_from(query.subquery())).scalar_one())


def _with_run(row: Any) -> dict[str, Any]:
    run = {"run_id": row.run_id, "thread_id": row.thread_id, "agent": row.agent_id, "principal": row.principal}
    return question_data(row) | run | present({"title": row.title, "private": row.private or None})
