"""The messages of a thread, and how many of the newest a run is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection, bindparam, select, tuple_

from config.database.tables import messages
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
        page_rows = connection.execute(_NEWEST, before | {"page": page}).all()
        for row in page_rows:
            if can_begin and chars > max_chars:
                return _past(connection, thread_key, rows, is_whole=False)
            rows.append(row)
            chars += len(row.data_json)
            can_begin = can_begin or row.role in OPENING_ROLES
        if len(page_rows) < page:
            return _past(connection, thread_key, rows, is_whole=True)
        before |= {"turn": rows[-1].turn, "number": rows[-1].number}
        page = min(2 * page, LAST_PAGE)


def _past(connection: Connection, thread_key: int, newest_first: Sequence[Any], *, is_whole: bool) -> Past:
    sentence = None
    if newest_first and newest_first[-1].role != "user":  # a user's message is the first of its turn
        sentence_row = connection.execute(_SENTENCE, {"thread_": thread_key, "turn": newest_first[-1].turn}).first()
        sentence = _item(sentence_row) if sentence_row is not None else None
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
