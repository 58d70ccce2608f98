"""Queries for runs: one run, filtered lists in pages, and the board."""

from __future__ import annotations

from typing import Any, TypedDict, Unpack

import orjson
from sqlalchemy import ColumnElement, Connection, Row, Select, and_, case, func, or_, select

from bus.journal.approvals import pending, pending_chars
from bus.journal.errors import RunUnknown
from bus.journal.log.pages import PAGE_BYTES
from bus.journal.states.conditions import OPEN
from bus.journal.who import Who
from bus.payloads import TERMINAL
from config.clock import stamp
from config.database.tables import runs
from config.errors import BadRequest

LIMIT = 50
"""Runs in a list without an explicit limit."""
STATUSES = (*OPEN, *sorted(TERMINAL))
_BRIEF = [column for column in runs.c if column.name not in ("output_json", "metadata_json")]


def get_run(connection: Connection, who: Who, run_id: str) -> dict[str, Any]:
    """Return one run with its open questions.

    Raises:
        RunUnknown: there is no such run, or another tenant's or user's; both look the same.
    """
    return _with_asked(connection, find_run(connection, who, run_id))


def get_small_run(connection: Connection, who: Who, run_id: str, max_chars: int) -> dict[str, Any] | None:
    """Return one run as ``get_run`` does, or None where its output or questions exceed ``max_chars``.

    What exceeds the limit is not read.

    Raises:
        RunUnknown: there is no such run, or another tenant's or user's.
    """
    chars = func.coalesce(func.length(runs.c.output_json), 0)
    output = case((chars <= max_chars, runs.c.output_json)).label("output_json")
    row = _find(connection, who, run_id, *_BRIEF, runs.c.metadata_json, output, chars.label("output_chars"))
    asked_chars = pending_chars(connection, row.id) if row.status == "waiting" else 0
    return _with_asked(connection, row) if max(row.output_chars, asked_chars) <= max_chars else None


def _with_asked(connection: Connection, row: Row[Any]) -> dict[str, Any]:
    asked = _asked(connection, row)
    return summary(row) | ({"approvals": asked} if asked else {})


def asked_now(connection: Connection, who: Who, run_id: str) -> list[dict[str, Any]]:
    """Return a run's open questions, the oldest first; empty once it has ended.

    Raises:
        RunUnknown: there is no such run, or another tenant's or user's.
    """
    return _asked(connection, find_run(connection, who, run_id))


def _asked(connection: Connection, row: Row[Any]) -> list[dict[str, Any]]:
    return pending(connection, row.id) if row.status == "waiting" else []


def find_run(connection: Connection, who: Who, run_id: str) -> Row[Any]:
    """Return a run's row, or raise ``RunUnknown``."""
    return _find(connection, who, run_id, *runs.c)


def _find(connection: Connection, who: Who, run_id: str, *columns: ColumnElement[Any]) -> Row[Any]:
    mine = (runs.c.id == run_id, runs.c.tenant == who.tenant, runs.c.principal == who.principal)
    row = connection.execute(select(*columns).where(*mine)).first()
    if row is None:
        raise RunUnknown(run_id)
    return row


class RunFilter(TypedDict, total=False):
    """A filter for runs; an absent field does not restrict."""

    status: str | None
    """A status, or ``open`` for all runs that have not ended."""
    agent: str | None
    thread_id: str | None
    limit: int
    """Most runs to return; ``LIMIT`` when absent."""
    before_ms: int | None
    before_id: str
    """Creation time (ms) and id of the last run of the previous page; several may be created in one millisecond."""


def list_runs(connection: Connection, who: Who, **wanted: Unpack[RunFilter]) -> list[dict[str, Any]]:
    """Return runs, the newest first."""
    return [summary(row) for row in connection.execute(_newest(who, **wanted))]


def run_page(connection: Connection, who: Who, **wanted: Unpack[RunFilter]) -> tuple[list[dict[str, Any]], bool]:
    """Return runs as ``list_runs`` does, and whether the page was shortened because of their size.

    A page ends where the runs' outputs reach 1 MB, and has at least one run: models and clients decide how long
    outputs are.
    """
    query = _newest(who, **wanted)
    found, size = [], 0
    if connection.dialect.name == "postgresql":  # its client reads all rows at once, SQLite's one by one
        query = query.limit(_fitting(connection, query, wanted.get("limit", LIMIT)))
    with connection.execute(query) as rows:
        for row in rows:
            found.append(summary(row))
            size += len(row.output_json or "")
            if size >= PAGE_BYTES:
                return found, True
    return found, False


def _fitting(connection: Connection, query: Select[Any], limit: int) -> int:
    """Return how many of the rows fit into a page, at least one."""
    size = 0
    lengths = connection.execute(query.with_only_columns(func.length(runs.c.output_json))).scalars()
    for count, length in enumerate(lengths, 1):
        size += length or 0
        if size >= PAGE_BYTES:
            return count
    return limit


def _newest(
    who: Who,
    status: str | None = None,
    agent: str | None = None,
    thread_id: str | None = None,
    limit: int = LIMIT,
    before_ms: int | None = None,
    before_id: str = "",
) -> Select[Any]:
    query = select(runs).where(runs.c.tenant == who.tenant, runs.c.principal == who.principal)
    if status == "open":
        query = query.where(runs.c.status.in_(OPEN))
    elif status is not None:
        if status not in STATUSES:
            raise BadRequest(f"'{status[:40]}' is not a status; use open, {', '.join(STATUSES)}.")
        query = query.where(runs.c.status == status)
    if agent is not None:
        query = query.where(runs.c.agent_id == agent)
    if thread_id is not None:
        query = query.where(runs.c.thread_id == thread_id)
    if before_ms is not None:
        same = and_(runs.c.created_ms == before_ms, runs.c.id < before_id)
        query = query.where(or_(runs.c.created_ms < before_ms, same))
    return query.order_by(runs.c.created_ms.desc(), runs.c.id.desc()).limit(limit)


def board(connection: Connection, who: Who, *, ended: int = 60) -> list[dict[str, Any]]:
    """Return every open run and the last ``ended`` ended ones, the newest first, without large fields."""
    mine = (runs.c.tenant == who.tenant, runs.c.principal == who.principal)
    going = select(*_BRIEF).where(*mine, runs.c.status.in_(OPEN)).order_by(runs.c.created_ms.desc()).limit(500)
    over = select(*_BRIEF).where(*mine, runs.c.ended_ms.is_not(None)).order_by(runs.c.created_ms.desc()).limit(ended)
    return [_brief(row) for query in (going, over) for row in connection.execute(query)]


def summary(row: Any) -> dict[str, Any]:
    """Return a run as lists show it, without null fields."""
    large = {
        "output": orjson.loads(row.output_json) if row.output_json else None,
        "metadata": orjson.loads(row.metadata_json) if row.metadata_json else None,
    }
    return _brief(row) | {name: value for name, value in large.items() if value is not None}


def _brief(row: Any) -> dict[str, Any]:
    fields = {
        "run_id": row.id,
        "thread_id": row.thread_id,
        "agent": row.agent_id,
        "agent_name": row.agent_name,
        "model": row.model,
        "title": row.title,
        "status": row.status,
        "reason": row.reason,
        "detail": row.detail,
        "error": row.error_code,
        "crashes": orjson.loads(row.crashes_json) if row.crashes_json else None,
        "queue": row.queue,
        "detached": row.detached or None,
        "attempt": row.fence or None,
        "steps": row.steps or None,
        "usage": orjson.loads(row.usage_json) if row.usage_json else None,
        "cost_usd": row.cost_usd,
        "created_at": stamp(row.created_ms),
        "started_at": stamp(row.started_ms) if row.started_ms else None,
        "ended_at": stamp(row.ended_ms) if row.ended_ms else None,
        "duration_ms": max(0, row.ended_ms - row.created_ms) if row.ended_ms else None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def status_of(connection: Connection, run_id: str) -> str | None:
    """Return a run's status; None where the run was removed."""
    return connection.execute(select(runs.c.status).where(runs.c.id == run_id)).scalar()


def queued_by_queue(connection: Connection, default: str) -> dict[str, int]:
    """Return how many runs are queued, by queue; ``default`` is the name of the default queue."""
    found: dict[str, int] = {}
    query = select(runs.c.queue, func.count()).where(runs.c.status == "queued").group_by(runs.c.queue)
    for queue, count in connection.execute(query):
        found[queue or default] = found.get(queue or default, 0) + count
    return found


def model_of(connection: Connection, run_id: str) -> str | None:
    """Return the model a run was accepted with; None where there is no such run."""
    model = connection.execute(select(runs.c.model).where(runs.c.id == run_id)).scalar()
    return str(model) if model is not None else None


def reader_bounds(connection: Connection, who: Who, run_id: str) -> tuple[str, str, int]:
    """Return a run's thread id, status and the highest event number it may have used, for readers."""
    row = _find(connection, who, run_id, runs.c.thread_id, runs.c.status, runs.c.reserved_to)
    return row.thread_id, row.status, row.reserved_to
