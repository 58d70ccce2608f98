"""Threads: conversations with a private history, one open run at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
from sqlalchemy import Connection, Row, bindparam, insert, select, tuple_, update

from bus.journal.outbox import announce
from bus.journal.states.conditions import is_open
from config.clock import epoch_ms
from config.database.engine import WALL_MS
from config.database.tables import messages, runs, threads
from config.ids import new_id
from config.redaction import redact

if TYPE_CHECKING:
    from bus.journal.ownership.leases import Lease


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
        """The characters of ``data_json``."""
        return len(self.data_json)

    @property
    def data_json(self) -> str:
        """The message as it is stored."""
        return orjson.dumps(dict(self.data)).decode()

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


def add_messages(connection: Connection, run: Lease | Row[Any], items: Sequence[HistoryItem]) -> None:
    """Insert messages into the run's thread, numbered after those of its turn; ``run`` as in ``commit.record``."""
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
            "data_json": item.data_json,
            "partial": item.partial,
            "created_ms": epoch_ms(),
        }
        for i, item in enumerate(items)
    ]
    connection.execute(_ADD_MESSAGES, rows)


def close_thread(connection: Connection, run: Lease | Row[Any]) -> str | None:
    """Free the thread of the run that ended; announce and return its next queued run, if there is one."""
    connection.execute(_CLOSE_THREAD, {"key_": run.thread_key, "run_": run.run_id})
    following = connection.execute(_FOLLOWING, {"thread_": run.thread_key, "run_": run.run_id}).scalar()
    if following is not None:
        announce(connection, following)
    return following
