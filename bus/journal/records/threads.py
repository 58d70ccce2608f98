"""The messages of a thread, how many of the newest a run is given, and the summary of those before them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from sqlalchemy import Connection, bindparam, select, tuple_, update

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
    turn: int = field(default=0, compare=False)
    """Of a stored message: the number of the user's message of its turn."""
    number: int = field(default=0, compare=False)
    """Of a stored message: its number in the thread."""
    stored_chars: int | None = field(default=None, compare=False, repr=False)

    @property
    def chars(self) -> int:
        """The characters of ``data_json``."""
        return len(self.data_json) if self.stored_chars is None else self.stored_chars

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


def label_thread(connection: Connection, thread_key: int, labels: Collection[str]) -> None:
    """Add labels to a thread's: a message that is accepted, and the owner of an earlier run, may do so at once."""
    parameters = {"key_": thread_key}
    written = orjson.loads(connection.execute(_LABELS, parameters).scalar() or "[]")
    if not set(labels) <= set(written):
        labels_json = orjson.dumps(sorted({*labels, *written})).decode()
        connection.execute(_LABEL, parameters | {"labels": labels_json})


_LABELS = select(threads.c.labels_json).where(threads.c.key == bindparam("key_")).with_for_update()
_LABEL = update(threads).where(threads.c.key == bindparam("key_")).values(labels_json=bindparam("labels"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """What a model is given in place of a thread's messages up to one of them."""

    id: str
    from_number: int
    """The first message that it replaces, by its number in the thread."""
    upto: tuple[int, int]
    """The turn and the number of the last one."""
    text: str
    facts: Mapping[str, Any]
    """``pinned``: name -> value; ``calls``: the tool calls, each as a line; ``left_out``: how many others there are."""
    chars: int
    is_used: bool
    """Whether a run was given it already."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Past:
    """The newest messages of a thread, up to a run's own."""

    items: Sequence[HistoryItem]
    """In reading order, each turn's messages together."""
    is_whole: bool = True
    """Whether these are all messages of the thread that no summary replaces."""
    sentence: HistoryItem | None = None
    """Where the items begin within a turn: the user's message of that turn."""
    summary: Summary | None = None
    """Of the messages before the items; those between both were left out."""


def history(connection: Connection, thread_key: int, turn: int, max_chars: int, summary: Summary | None = None) -> Past:
    """Return the newest messages up to those of ``turn``, slightly more than ``max_chars`` characters of them.

    Those that ``summary`` replaces are left out. Messages are read newest first, until the limit is exceeded and a
    message with which a history can begin is found, so that the cost does not depend on the thread's length.
    """
    rows: list[Any] = []
    chars, can_begin, page = 0, False, FIRST_PAGE
    after_turn, after_number = (0, 0) if summary is None else summary.upto
    before = {"thread_": thread_key, "own_turn": turn, "turn": turn + 1, "number": 0}
    before |= {"turn_0": after_turn, "number_0": after_number}
    while True:
        page_rows = connection.execute(_NEWEST, before | {"page": page}).all()
        for row in page_rows:
            if can_begin and chars > max_chars:
                return _past(connection, thread_key, rows, summary, is_whole=False)
            rows.append(row)
            chars += len(row.data_json)
            can_begin = can_begin or row.role in OPENING_ROLES
        if len(page_rows) < page:
            return _past(connection, thread_key, rows, summary, is_whole=True)
        before |= {"turn": rows[-1].turn, "number": rows[-1].number}
        page = min(2 * page, LAST_PAGE)


def _past(
    connection: Connection, thread_key: int, newest_first: Sequence[Any], summary: Summary | None, *, is_whole: bool
) -> Past:
    sentence = None
    if newest_first and newest_first[-1].role != "user":  # a user's message is the first of its turn
        sentence_row = connection.execute(_SENTENCE, {"thread_": thread_key, "turn": newest_first[-1].turn}).first()
        sentence = _item(sentence_row) if sentence_row is not None else None
    items = [_item(row) for row in reversed(newest_first)]
    return Past(items=items, is_whole=is_whole, sentence=sentence, summary=summary)


def _item(row: Any) -> HistoryItem:
    turn, number, id_, role, text, partial = row  # by position: by name takes as long as decoding the text
    data = orjson.loads(text)
    return HistoryItem(id=id_, role=role, data=data, partial=partial, turn=turn, number=number, stored_chars=len(text))


# These statements are built once: building one takes longer than executing it.
_MESSAGE = select(
    messages.c.turn, messages.c.number, messages.c.id, messages.c.role, messages.c.data_json, messages.c.partial
).where(messages.c.thread_key == bindparam("thread_"))
_ASIDE = select(runs.c.id).where(
    runs.c.thread_key == bindparam("thread_"),
    runs.c.ended_ms.is_(None),
    runs.c.turn < bindparam("own_turn"),
    runs.c.on_waiting == "aside",
)
"""Runs that wait for a person while later turns are answered: these do not get the turn that is not finished."""
_NEWEST = (
    _MESSAGE.where(~messages.c.undone, messages.c.run_id.not_in(_ASIDE))
    .where(
        tuple_(messages.c.turn, messages.c.number) < tuple_(bindparam("turn"), bindparam("number")),
        tuple_(messages.c.turn, messages.c.number) > tuple_(bindparam("turn_0"), bindparam("number_0")),
    )
    .order_by(messages.c.turn.desc(), messages.c.number.desc())
    .limit(bindparam("page"))
)
_SENTENCE = (
    _MESSAGE.where(messages.c.turn == bindparam("turn"), messages.c.role == "user").order_by(messages.c.number).limit(1)
)
