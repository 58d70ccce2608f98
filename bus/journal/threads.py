"""Threads: conversations with a private history, one open run at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection, and_, bindparam, insert, or_, select, update

from bus.journal.leases import Lease, is_open
from config.clock import epoch_ms, stamp
from config.errors import ThreadUnknown
from config.ids import new_id
from config.tables import messages, outbox, runs, threads


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryItem:
    """One message of a thread, as the model will be shown it again."""

    id: str
    role: str
    """user, assistant, tool or error (a failure a person sees; models are not shown it)."""
    data: Mapping[str, Any]
    """``content``, and where there are any ``reasoning``, ``tool_calls``, ``call_id``, ``name``, ``outcome``."""
    partial: bool = False
    """Whether it was cut off by a stop or a failure."""


def history(connection: Connection, thread_key: int, turn: int) -> list[HistoryItem]:
    """Return the messages up to and including those of ``turn``, each turn's together."""
    rows = connection.execute(_HISTORY, {"its_thread": thread_key, "upto": turn})
    return [
        HistoryItem(id=row.id, role=row.role, data=orjson.loads(row.data_json), partial=row.partial) for row in rows
    ]


# Statements a run executes are built once: building one costs more than running it.
_HISTORY = (
    select(messages.c.id, messages.c.role, messages.c.data_json, messages.c.partial)
    .where(messages.c.thread_key == bindparam("its_thread"), messages.c.turn <= bindparam("upto"))
    .order_by(messages.c.turn, messages.c.number)
)
_TAKE_NUMBERS = (
    update(threads)
    .where(threads.c.key == bindparam("its_key"))
    .values(next_message=threads.c.next_message + bindparam("count"), updated_ms=bindparam("now_ms"))
    .returning(threads.c.next_message)
)
_CLOSE_THREAD = (
    update(threads)
    .where(threads.c.key == bindparam("its_key"), threads.c.open_run == bindparam("its_run"))
    .values(open_run=None)
)
_FOLLOWING = (
    select(runs.c.id)
    .where(
        runs.c.thread_key == bindparam("its_thread"), is_open(runs), runs.c.id != bindparam("its_run")
    )
    .order_by(runs.c.turn)
    .limit(1)
)  # fmt: skip
_ANNOUNCE = insert(outbox).inline()
_ADD_MESSAGES = insert(messages).inline()


def add_messages(connection: Connection, lease: Lease, items: Sequence[HistoryItem]) -> None:
    """Add messages to the run's thread, numbered behind those it has."""
    if items:
        _add(connection, lease.thread_key, lease.turn, lease.run_id, items)


def note_ending(connection: Connection, run: Any, item: HistoryItem) -> None:
    """Add one message for a run nobody holds a lease of; ``run`` is its row."""
    _add(connection, run.thread_key, run.turn, run.id, [item])


def _add(connection: Connection, thread_key: int, turn: int, run_id: str, items: Sequence[HistoryItem]) -> None:
    asked = {"its_key": thread_key, "count": len(items), "now_ms": epoch_ms()}
    first = connection.execute(_TAKE_NUMBERS, asked).scalar_one() - len(items)
    rows = [
        {
            "thread_key": thread_key, "number": first + i, "turn": turn, "run_id": run_id,
            "id": item.id, "role": item.role, "data_json": orjson.dumps(dict(item.data)).decode(),
            "partial": item.partial, "created_ms": epoch_ms(),
        }
        for i, item in enumerate(items)
    ]  # fmt: skip
    connection.execute(_ADD_MESSAGES, rows)


def close_thread(connection: Connection, lease: Lease) -> str | None:
    """Note that the thread's run ended; return the run that may begin now, after announcing it."""
    return close_thread_of(connection, lease.thread_key, lease.run_id)


def close_thread_of(connection: Connection, thread_key: int, run_id: str) -> str | None:
    """As ``close_thread``, for a run nobody holds a lease of."""
    connection.execute(_CLOSE_THREAD, {"its_key": thread_key, "its_run": run_id})
    following = connection.execute(_FOLLOWING, {"its_thread": thread_key, "its_run": run_id}).scalar()
    if following is not None:
        connection.execute(_ANNOUNCE, {"run_id": following, "created_ms": epoch_ms()})
    return following


# --- what the doors show --------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Who:
    """Whose rows may be seen; every reading function takes one."""

    tenant: str = "default"
    principal: str = "local"


def list_threads(
    connection: Connection,
    who: Who,
    *,
    search: str | None = None,
    limit: int = 50,
    before_ms: int | None = None,
    before_id: str = "",
) -> list[dict[str, Any]]:
    """Return threads, the one touched last first; a next page begins behind the last one's time and id."""
    query = select(threads).where(threads.c.tenant == who.tenant, threads.c.principal == who.principal)
    if search:
        query = query.where(threads.c.title.icontains(search, autoescape=True))
    if before_ms is not None:
        same = and_(threads.c.updated_ms == before_ms, threads.c.id < before_id)
        query = query.where(or_(threads.c.updated_ms < before_ms, same))
    rows = connection.execute(query.order_by(threads.c.updated_ms.desc(), threads.c.id.desc()).limit(limit)).all()
    return [_summary(row) for row in rows]


def open_thread(connection: Connection, who: Who, agent_id: str, title: str) -> str:
    """Make an empty thread and return its id."""
    now, its_id = epoch_ms(), new_id("thr")
    row = {
        "id": its_id, "tenant": who.tenant, "principal": who.principal, "agent_id": agent_id, "title": title,
        "next_message": 1, "created_ms": now, "updated_ms": now,
    }  # fmt: skip
    connection.execute(insert(threads), row)
    return its_id


def get_thread(connection: Connection, who: Who, thread_id: str) -> dict[str, Any]:
    """Return one thread with its runs.

    Raises:
        ThreadUnknown: there is none, or it is somebody else's; both look the same.
    """
    row = _thread_row(connection, who, thread_id)
    query = (
        select(runs.c.id, runs.c.status, runs.c.reason, runs.c.created_ms)
        .where(runs.c.thread_key == row.key)
        .order_by(runs.c.turn)
    )
    its_runs = [
        _present({"run_id": r.id, "status": r.status, "reason": r.reason, "created_at": stamp(r.created_ms)})
        for r in connection.execute(query)
    ]
    return _summary(row) | {"runs": its_runs}


def list_messages(
    connection: Connection, who: Who, thread_id: str, *, after: tuple[int, int] = (0, 0), limit: int = 200
) -> list[dict[str, Any]]:
    """Return a page of a thread's messages in reading order, those after ``(turn, number)``."""
    row = _thread_row(connection, who, thread_id)
    turn, number = after
    query = (
        select(messages)
        .where(
            messages.c.thread_key == row.key,
            or_(messages.c.turn > turn, and_(messages.c.turn == turn, messages.c.number > number)),
        )
        .order_by(messages.c.turn, messages.c.number)
        .limit(limit)
    )
    return [
        _present(
            {
                "number": m.number, "turn": m.turn, "run_id": m.run_id, "message_id": m.id, "role": m.role,
                "partial": m.partial or None, "at": stamp(m.created_ms), **orjson.loads(m.data_json),
            }
        )
        for m in connection.execute(query)
    ]  # fmt: skip


def _thread_row(connection: Connection, who: Who, thread_id: str) -> Any:
    query = select(threads).where(
        threads.c.tenant == who.tenant, threads.c.principal == who.principal, threads.c.id == thread_id
    )
    row = connection.execute(query).first()
    if row is None:
        raise ThreadUnknown(thread_id)
    return row


def _summary(row: Any) -> dict[str, Any]:
    return _present(
        {
            "thread_id": row.id, "title": row.title, "agent": row.agent_id, "open_run": row.open_run,
            "created_at": stamp(row.created_ms), "updated_at": stamp(row.updated_ms),
        }
    )  # fmt: skip


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is absent: the wire has no nulls."""
    return {name: value for name, value in fields.items() if value is not None}
