"""Threads: conversations with a private history, one open run at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import orjson
from sqlalchemy import Connection, and_, bindparam, insert, or_, select, tuple_, update

from bus.journal.errors import ThreadUnknown
from bus.journal.log.pages import Pages
from bus.journal.outbox import announce
from bus.journal.states.conditions import is_open
from bus.journal.who import Who
from config.clock import epoch_ms, stamp
from config.database.engine import WALL_MS
from config.database.tables import messages, runs, threads
from config.ids import new_id
from config.redaction import redact


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryItem:
    """One message of a thread, as it is sent to the model again."""

    id: str
    role: str
    """user, assistant, tool or error (a failure shown to people and not sent to models)."""
    data: Mapping[str, Any]
    """``content``, and where there are any ``reasoning``, ``tool_calls``, ``call_id``, ``name``, ``outcome``."""
    partial: bool = False
    """Whether a stop or a failure interrupted it."""

    @property
    def chars(self) -> int:
        """The characters of the message as it is stored."""
        return len(_data_json(self))

    @property
    def can_open(self) -> bool:
        """Whether a history can begin with it; a result belongs to the call before it."""
        return self.role in OPENING_ROLES


def error_item(text: str, code: str | None = None) -> HistoryItem:
    """Return the message that shows a failure, with its secrets redacted."""
    data = {"content": redact(text)} | ({"code": code} if code else {})
    return HistoryItem(id=new_id("msg"), role="error", data=data)


OPENING_ROLES = ("user", "assistant")
FIRST_PAGE, LAST_PAGE = 32, 256
"""Rows read at a time: few at first, since one may have 256 KB."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Past:
    """The newest messages of a thread, up to a run's own."""

    items: Sequence[HistoryItem]
    """In reading order, each turn's messages together."""
    is_whole: bool = True
    """Whether these are all messages of the thread."""
    sentence: HistoryItem | None = None
    """Where the items begin within a turn: the user's message of that turn."""


def history(connection: Connection, thread_key: int, turn: int, max_chars: int) -> Past:
    """Return the newest messages up to those of ``turn``, slightly more than ``max_chars`` characters of them.

    Messages are read newest first, until the limit is exceeded and a message with which a history can begin is found,
    so that the cost does not depend on the thread's length.
    """
    rows: list[Any] = []
    chars, can_begin, page = 0, False, FIRST_PAGE
    before = {"thread_": thread_key, "turn": turn + 1, "number": 0}
    while True:
        found = connection.execute(_NEWEST, before | {"page": page}).all()
        for row in found:
            if can_begin and chars > max_chars:
                return _past(connection, thread_key, rows, is_whole=False)
            rows.append(row)
            chars += len(row.data_json)
            can_begin = can_begin or row.role in OPENING_ROLES
        if len(found) < page:
            return _past(connection, thread_key, rows, is_whole=True)
        before |= {"turn": rows[-1].turn, "number": rows[-1].number}
        page = min(2 * page, LAST_PAGE)


def _past(connection: Connection, thread_key: int, newest_first: Sequence[Any], *, is_whole: bool) -> Past:
    sentence = None
    if newest_first and newest_first[-1].role != "user":  # a user's message is the first of its turn
        found = connection.execute(_SENTENCE, {"thread_": thread_key, "turn": newest_first[-1].turn}).first()
        sentence = _item(found) if found is not None else None
    return Past(items=[_item(row) for row in reversed(newest_first)], is_whole=is_whole, sentence=sentence)


def _item(row: Any) -> HistoryItem:
    return HistoryItem(id=row.id, role=row.role, data=orjson.loads(row.data_json), partial=row.partial)


# These statements are built once: building one takes longer than executing it.
_MESSAGE = select(
    messages.c.turn, messages.c.number, messages.c.id, messages.c.role, messages.c.data_json, messages.c.partial
).where(messages.c.thread_key == bindparam("thread_"))
_NEWEST = (
    _MESSAGE.where(tuple_(messages.c.turn, messages.c.number) < tuple_(bindparam("turn"), bindparam("number")))
    .order_by(messages.c.turn.desc(), messages.c.number.desc())
    .limit(bindparam("page"))
)
_SENTENCE = _MESSAGE.where(messages.c.number == bindparam("turn"), messages.c.role == "user")
_TAKE_NUMBERS = (
    update(threads)
    .where(threads.c.key == bindparam("key_"))
    .values(next_message=threads.c.next_message + bindparam("count"), updated_ms=WALL_MS)
    .returning(threads.c.next_message)
)
_CLOSE_THREAD = (
    update(threads)
    .where(threads.c.key == bindparam("key_"), threads.c.open_run == bindparam("run_"))
    .values(open_run=None)
)
_FOLLOWING = (
    select(runs.c.id)
    .where(runs.c.thread_key == bindparam("thread_"), is_open(runs), runs.c.id != bindparam("run_"))
    .order_by(runs.c.turn)
    .limit(1)
)
_ADD_MESSAGES = insert(messages).inline()


class RunOfThread(Protocol):
    """A run's place in its thread: a lease, or the row that ``lock_run`` returned."""

    @property
    def run_id(self) -> str:
        """The run."""

    @property
    def thread_id(self) -> str:
        """The thread's name for its client."""

    @property
    def thread_key(self) -> int:
        """The thread's row."""

    @property
    def turn(self) -> int:
        """The number of the user's message that the run answers."""


def add_messages(connection: Connection, run: RunOfThread, items: Sequence[HistoryItem]) -> None:
    """Insert messages into the run's thread, numbered after those of its turn."""
    if not items:
        return
    asked = {"key_": run.thread_key, "count": len(items)}
    first = connection.execute(_TAKE_NUMBERS, asked).scalar_one() - len(items)
    rows = [
        {
            "thread_key": run.thread_key,
            "number": first + i,
            "turn": run.turn,
            "run_id": run.run_id,
            "id": item.id,
            "role": item.role,
            "data_json": _data_json(item),
            "partial": item.partial,
            "created_ms": epoch_ms(),
        }
        for i, item in enumerate(items)
    ]
    connection.execute(_ADD_MESSAGES, rows)


def _data_json(item: HistoryItem) -> str:
    return orjson.dumps(dict(item.data)).decode()


def close_thread(connection: Connection, run: RunOfThread) -> str | None:
    """Free the thread of the run that ended; announce and return its next queued run, if there is one."""
    connection.execute(_CLOSE_THREAD, {"key_": run.thread_key, "run_": run.run_id})
    following = connection.execute(_FOLLOWING, {"thread_": run.thread_key, "run_": run.run_id}).scalar()
    if following is not None:
        announce(connection, following)
    return following


# --- queries for the API and the terminal ----------------------------------------------------------


def list_threads(
    connection: Connection,
    who: Who,
    *,
    search: str | None = None,
    limit: int = 50,
    before_ms: int | None = None,
    before_id: str = "",
) -> list[dict[str, Any]]:
    """Return threads, the last used one first; the next page begins after the last one's time and id."""
    query = select(threads).where(threads.c.tenant == who.tenant, threads.c.principal == who.principal)
    if search:
        query = query.where(threads.c.title.icontains(search, autoescape=True))
    if before_ms is not None:
        same = and_(threads.c.updated_ms == before_ms, threads.c.id < before_id)
        query = query.where(or_(threads.c.updated_ms < before_ms, same))
    rows = connection.execute(query.order_by(threads.c.updated_ms.desc(), threads.c.id.desc()).limit(limit)).all()
    return [_summary(row) for row in rows]


def open_thread(connection: Connection, who: Who, agent_id: str, title: str) -> str:
    """Insert an empty thread and return its id."""
    id_ = new_id("thr")
    row = {
        "id": id_,
        "tenant": who.tenant,
        "principal": who.principal,
        "agent_id": agent_id,
        "title": title,
        "next_message": 1,
        "created_ms": WALL_MS,
        "updated_ms": WALL_MS,
    }
    connection.execute(insert(threads).values(**row))
    return id_


def get_thread(connection: Connection, who: Who, thread_id: str) -> dict[str, Any]:
    """Return one thread with its runs.

    Raises:
        ThreadUnknown: there is no such thread, or another tenant's or user's; both look the same.
    """
    row = _thread_row(connection, who, thread_id)
    query = (
        select(runs.c.id, runs.c.status, runs.c.reason, runs.c.created_ms)
        .where(runs.c.thread_key == row.key)
        .order_by(runs.c.turn)
    )
    runs_ = [
        _present({"run_id": r.id, "status": r.status, "reason": r.reason, "created_at": stamp(r.created_ms)})
        for r in connection.execute(query)
    ]
    return _summary(row) | {"runs": runs_}


_MESSAGES = Pages(
    query=select(messages)
    .where(
        messages.c.thread_key == bindparam("thread_key"),
        tuple_(messages.c.turn, messages.c.number) > tuple_(bindparam("after_turn"), bindparam("after_number")),
    )
    .order_by(messages.c.turn, messages.c.number)
    .limit(bindparam("page_limit")),
    text=messages.c.data_json,
    order=(messages.c.turn, messages.c.number),
)


def list_messages(
    connection: Connection, who: Who, thread_id: str, *, after: tuple[int, int] = (0, 0), limit: int = 200
) -> list[dict[str, Any]]:
    """Return up to ``limit`` messages of a thread after ``(turn, number)``, in reading order, of any size."""
    found, has_more = message_page(connection, who, thread_id, after=after, limit=limit)
    while has_more and len(found) < limit:
        last = found[-1]["turn"], found[-1]["number"]
        page, has_more = message_page(connection, who, thread_id, after=last, limit=limit - len(found))
        found += page
    return found


def message_page(
    connection: Connection, who: Who, thread_id: str, *, after: tuple[int, int], limit: int
) -> tuple[list[dict[str, Any]], bool]:
    """Return up to ``limit`` messages or 1 MB of them, and whether there may be more."""
    row = _thread_row(connection, who, thread_id)
    turn, number = after
    values = {"thread_key": row.key, "after_turn": turn, "after_number": number, "page_limit": limit}
    found, is_cut = _MESSAGES.read(connection, values)
    shown = [
        _present(
            {
                "number": m.number,
                "turn": m.turn,
                "run_id": m.run_id,
                "message_id": m.id,
                "role": m.role,
                "partial": m.partial or None,
                "at": stamp(m.created_ms),
                **orjson.loads(m.data_json),
            }
        )
        for m in found
    ]
    return shown, is_cut or len(found) == limit


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
            "thread_id": row.id,
            "title": row.title,
            "agent": row.agent_id,
            "open_run": row.open_run,
            "created_at": stamp(row.created_ms),
            "updated_at": stamp(row.updated_ms),
        }
    )


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields without None values: the wire has no nulls."""
    return {name: value for name, value in fields.items() if value is not None}
