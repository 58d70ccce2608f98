"""Runs as others see them: one, a list, and the stop anybody may ask for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import orjson
from sqlalchemy import Connection, Row, and_, insert, or_, select, update

from bus.journal.events import event_row, insert_rows, undeclared
from bus.journal.leases import OPEN, expired
from bus.journal.threads import HistoryItem, Who, close_thread_of, note_ending
from bus.payloads import TERMINAL, EndPayload, Payload, WithdrawnPayload
from config.clock import epoch_ms, stamp
from config.database import Database
from config.errors import BadRequest, RunUnknown
from config.ids import new_id
from config.tables import controls, runs

STATUSES = (*OPEN, *sorted(TERMINAL))


def get_run(connection: Connection, who: Who, run_id: str) -> dict[str, Any]:
    """Return one run.

    Raises:
        RunUnknown: there is none, or it is somebody else's; both look the same.
    """
    return summary(find_run(connection, who, run_id))


def find_run(connection: Connection, who: Who, run_id: str) -> Row[Any]:
    """Return a run's row, or raise ``RunUnknown``."""
    query = select(runs).where(runs.c.id == run_id, runs.c.tenant == who.tenant, runs.c.principal == who.principal)
    row = connection.execute(query).first()
    if row is None:
        raise RunUnknown(run_id)
    return row


def list_runs(
    connection: Connection,
    who: Who,
    *,
    status: str | None = None,
    agent: str | None = None,
    thread_id: str | None = None,
    limit: int = 50,
    before_ms: int | None = None,
    before_id: str = "",
) -> list[dict[str, Any]]:
    """Return runs, the newest first; ``status`` may be ``open`` for all that have not ended.

    A next page begins behind the last run of the one before: its creation and, since several may be
    made in one millisecond, its id.
    """
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
    newest = query.order_by(runs.c.created_ms.desc(), runs.c.id.desc()).limit(limit)
    return [summary(row) for row in connection.execute(newest)]


def board(connection: Connection, who: Who, *, ended: int = 60) -> list[dict[str, Any]]:
    """Return every open run and the last ``ended`` ones, the newest first."""
    mine = (runs.c.tenant == who.tenant, runs.c.principal == who.principal)
    going = select(runs).where(*mine, runs.c.status.in_(OPEN)).order_by(runs.c.created_ms.desc()).limit(500)
    over = select(runs).where(*mine, runs.c.ended_ms.is_not(None)).order_by(runs.c.created_ms.desc()).limit(ended)
    return [summary(row) for query in (going, over) for row in connection.execute(query)]


def summary(row: Any) -> dict[str, Any]:
    """Return a run as lists and the board show it; absent is absent."""
    fields = {
        "run_id": row.id, "thread_id": row.thread_id, "agent": row.agent_id, "agent_name": row.agent_name,
        "model": row.model, "title": row.title, "status": row.status, "reason": row.reason, "error": row.error_code,
        "detached": row.detached or None, "attempt": row.fence or None, "steps": row.steps or None,
        "usage": orjson.loads(row.usage_json) if row.usage_json else None, "cost_usd": row.cost_usd,
        "output": orjson.loads(row.output_json) if row.output_json else None,
        "metadata": orjson.loads(row.metadata_json) if row.metadata_json else None,
        "created_at": stamp(row.created_ms), "started_at": stamp(row.started_ms) if row.started_ms else None,
        "ended_at": stamp(row.ended_ms) if row.ended_ms else None,
        "duration_ms": row.ended_ms - row.created_ms if row.ended_ms else None,
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value is not None}


# --- stopping -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Stop:
    """What became of a request to stop."""

    status: str
    """The run's state now: ended already, ended by this, or ``running`` until its owner has seen it."""
    thread_id: str
    fence: int
    events: tuple[Payload, ...] = ()
    """Events this wrote itself, because nobody owned the run; viewers still have to be told."""
    wake: str | None = None
    """The thread's next run, which may begin now."""


def cancel(database: Database, who: Who, run_id: str, by: str) -> Stop:
    """Ask a run to stop, or end it here when nobody owns it. Asked again, nothing more happens.

    With a live lease only a row in ``controls`` and the flag are written, which the owner turns into
    events; without one the run's row is locked, the fence raised so that a zombie's writes are refused,
    holes are declared exactly as a new owner would, and the end is written.
    """
    with database.write() as connection:
        row = connection.execute(select(runs).where(runs.c.id == run_id).with_for_update()).first()
        if row is None or (row.tenant, row.principal) != (who.tenant, who.principal):
            raise RunUnknown(run_id)
        if row.status in TERMINAL:
            return Stop(status=row.status, thread_id=row.thread_id, fence=row.fence)
        if _has_live_owner(database, connection, row):
            if not row.stop_requested:
                connection.execute(update(runs).where(runs.c.id == run_id).values(stop_requested=True))
                order = {"run_id": run_id, "kind": "stop", "by": by, "created_ms": epoch_ms()}
                connection.execute(insert(controls), order)
            return Stop(status=row.status, thread_id=row.thread_id, fence=row.fence)
        end = EndPayload(
            status="cancelled", reason="stopped before it was finished", steps=row.steps,
            duration_ms=epoch_ms() - row.created_ms,
        )  # fmt: skip
        return _end_without_owner(connection, row, end)


def _has_live_owner(database: Database, connection: Connection, row: Any) -> bool:
    if row.status != "running":
        return False
    return connection.execute(select(runs.c.id).where(runs.c.id == row.id, ~expired(database))).first() is not None


def _end_without_owner(connection: Connection, row: Any, end: EndPayload) -> Stop:
    fence, at, seq = row.fence + 1, stamp(), row.reserved_to + 1
    written: list[Payload] = []
    ranges = undeclared(connection, row.id, row.reserved_to)
    if ranges:
        written.append(WithdrawnPayload(seq=seq, at=at, ranges=ranges))
        seq += 1
    written.append(replace(end, seq=seq, at=at))
    connection.execute(
        update(runs)
        .where(runs.c.id == row.id)
        .values(
            status=end.status, reason=end.reason, fence=fence, owner=None, lease_until=None, reserved_to=seq,
            stop_requested=True, observers_told=False, ended_ms=epoch_ms(),
        )
    )  # fmt: skip
    insert_rows(connection, [event_row(payload, row.id, row.thread_id, fence) for payload in written])
    note_ending(
        connection, row, HistoryItem(id=new_id("msg"), role="error", data={"content": f"Stopped: {end.reason}."})
    )
    wake = close_thread_of(connection, row.thread_key, row.id)
    return Stop(status=end.status, thread_id=row.thread_id, fence=fence, events=tuple(written), wake=wake)


def is_queued(connection: Connection, run_id: str) -> bool:
    """Return whether a run still waits to be claimed."""
    query = select(runs.c.id).where(runs.c.id == run_id, runs.c.status == "queued")
    return connection.execute(query).first() is not None


def reader_bounds(connection: Connection, who: Who, run_id: str) -> tuple[str, str, int]:
    """Return a run's thread, state and the highest number it may have used, for a reader to begin with."""
    row = find_run(connection, who, run_id)
    return row.thread_id, row.status, row.reserved_to
