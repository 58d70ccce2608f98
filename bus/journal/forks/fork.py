"""A fork of a thread: another thread of the same principal that begins with copies of its first messages.

The copies are one ``INSERT ... SELECT``, whatever the length. A fork inherits the labels and the privacy of the
whole thread, also of messages that it leaves out: what was read later may be the reason why it is made.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Connection, Row, and_, func, insert, literal, or_, select, tuple_
from sqlalchemy.exc import IntegrityError

from bus.identity.errors import forbidden
from bus.journal.errors import ThreadUnknown
from bus.journal.forks.errors import MESSAGE_UNKNOWN, THREAD_EXISTS
from bus.journal.log.commit import add_agent
from bus.journal.paging import threads_of
from config.database.engine import WALL_MS, Database
from config.database.tables import messages, runs, thread_agents, threads
from config.identity.principal import Principal, Reach, Verb
from config.ids import is_made, new_id

Place = tuple[int, int]
"""Turn and number of a message: messages are read in this order."""
NOWHERE: Place = (0, 0)
"""Before the first message."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fork:
    """A new thread that begins with messages of another one."""

    thread_id: str
    forked_from: str
    """The thread whose messages it has."""
    at: int
    """The number of the last message that was copied; 0: none was."""
    messages: int
    """How many were copied."""


def fork_thread(
    database: Database, principal: Principal, thread_id: str, number: int, new_thread_id: str | None = None
) -> Fork:
    """Make a thread with copies of a thread's messages, up to and including ``number``, and return it.

    A call of a tool whose result is behind that message is left out with all calls of its answer, since models accept
    no call without its result; so is what another run wrote that has begun and not ended.

    Raises:
        FORBIDDEN: the credential of the principal starts nothing.
        ThreadUnknown: the principal has no such thread, or its credential is not for all agents of it; or the new name
            is an id as Callboard makes them.
        MESSAGE_UNKNOWN: the thread has no message with this number.
        THREAD_EXISTS: the principal has a thread called ``new_thread_id``.
    """
    if principal.reach(Verb.START) is Reach.NONE:
        raise forbidden(principal, Verb.START, "runs, or fork threads")
    if new_thread_id is not None and is_made("thr", new_thread_id):
        raise ThreadUnknown(thread_id=new_thread_id)
    try:
        with database.write() as connection:
            row = _locked_thread(connection, principal, thread_id)
            message = _message(connection, row, number)
            is_copied = _is_copied(connection, row, message.run_id)
            last = _last_place(connection, is_copied, message)
            fork_id, count = _insert_fork(
                connection, row, and_(is_copied, _place <= tuple_(*last)), row.agent_id, new_thread_id
            )
    except IntegrityError as error:
        raise THREAD_EXISTS(thread_id=new_thread_id) from error
    return Fork(thread_id=fork_id, forked_from=row.id, at=last[1], messages=count)


def fork_before(
    connection: Connection, principal: Principal, thread_id: str, turn: int, agent_id: str, new_thread_id: str | None
) -> str:
    """Make a fork of the principal's thread with what was said before this turn, and return its id.

    Its agent is ``agent_id``, which continues there: the thread's own may have been handed the thread in that turn.

    What runs wrote that have begun and not ended is left out.

    Raises:
        ThreadUnknown: see ``fork_thread``.
    """
    row = _locked_thread(connection, principal, thread_id)
    is_before = and_(_is_copied(connection, row), messages.c.turn < turn)
    return _insert_fork(connection, row, is_before, agent_id, new_thread_id)[0]


def _locked_thread(connection: Connection, principal: Principal, thread_id: str) -> Row[Any]:
    """Return the row of the principal's own thread; no run adds messages or labels to it until the transaction ends."""
    query = select(threads).where(threads.c.id == thread_id, threads_of(principal, None))
    row = connection.execute(query.with_for_update()).first()
    if row is None:
        raise ThreadUnknown(thread_id=thread_id)
    return row


def _is_copied(connection: Connection, row: Row[Any], own_run: str | None = None) -> ColumnElement[bool]:
    """Return the condition that a fork may have a message of the locked thread: of ``own_run``, or of no open run.

    A run that has begun may have a call without a result, also while later turns are answered. The ids are read once:
    such a run may end, but none adds a message, until the transaction ends.
    """
    has_begun = or_(runs.c.started_ms.is_not(None), runs.c.origin_id.is_not(None))
    query = select(runs.c.id).where(runs.c.thread_key == row.key, runs.c.ended_ms.is_(None), has_begun)
    others = [id_ for id_ in connection.execute(query).scalars() if id_ != own_run]
    return and_(messages.c.thread_key == row.key, messages.c.run_id.not_in(others))


_place = tuple_(messages.c.turn, messages.c.number)


def _insert_fork(
    connection: Connection, row: Row[Any], is_copied: ColumnElement[bool], agent_id: str, thread_id: str | None
) -> tuple[str, int]:
    """Insert a thread with these messages of ``row``'s thread, in their order and numbers.

    Returns its id, and how many messages it has.
    """
    count, highest = connection.execute(
        select(func.count(), func.coalesce(func.max(messages.c.number), 0)).where(is_copied)
    ).one()
    fork_id = thread_id or new_id("thr")
    values = {name: getattr(row, name) for name in _INHERITED} | {
        "id": fork_id,
        "agent_id": agent_id,
        "next_message": highest + 1,
        "forked_from": row.id,
        "forked_to": highest,
    }
    insertion = insert(threads).values(**values, created_ms=WALL_MS, updated_ms=WALL_MS).returning(threads.c.key)
    key = connection.execute(insertion).scalar_one()
    _copy(connection, messages, key, is_copied)
    _copy(connection, thread_agents, key, thread_agents.c.thread_key == row.key)
    if agent_id != row.agent_id:
        add_agent(connection, key, row.agent_id)
    return fork_id, count


_INHERITED = ("tenant", "principal", "private", "title", "labels_json")


def _copy(connection: Connection, table: Any, thread_key: int, which: Any) -> None:
    """Insert the rows of a table once more, for another thread."""
    columns = [column for column in table.c if column.name != "thread_key"]
    rows = select(literal(thread_key), *columns).where(which)
    connection.execute(insert(table).from_select(["thread_key", *(column.name for column in columns)], rows))


def _message(connection: Connection, row: Row[Any], number: int) -> Row[Any]:
    """Return the thread's message with this number: its turn, number and run.

    Raises:
        MESSAGE_UNKNOWN: there is no such message.
    """
    query = select(*messages.c["turn", "number", "run_id"])
    query = query.where(messages.c.thread_key == row.key, messages.c.number == number)
    message = connection.execute(query).first()
    if message is None:
        raise MESSAGE_UNKNOWN(thread_id=row.id, number=number, last=row.next_message - 1)
    return message


def _last_place(connection: Connection, is_copied: ColumnElement[bool], message: Row[Any]) -> Place:
    """Return the place of the last message of a fork at ``message``: that one, or the one before its unfinished answer.

    ``is_copied`` is the condition of ``_is_copied``.
    """
    place = message.turn, message.number
    turn = select(*messages.c["number", "role", "data_json"]).where(is_copied, messages.c.turn == message.turn)
    rows = connection.execute(turn.where(messages.c.number <= message.number).order_by(messages.c.number)).all()
    cut = _unfinished(rows)
    if cut is None:
        return place
    query = select(messages.c.turn, messages.c.number).where(is_copied, _place < tuple_(message.turn, cut))
    before = connection.execute(query.order_by(messages.c.turn.desc(), messages.c.number.desc()).limit(1)).first()
    return (before.turn, before.number) if before is not None else NOWHERE


def _unfinished(rows: Iterable[Any]) -> int | None:
    """Return the number of the message whose calls have no result among the rows of a turn; None where all have."""
    unanswered: set[str] = set()
    asked_by: int | None = None
    for row in rows:
        data = orjson.loads(row.data_json)
        if row.role == "tool":
            unanswered.discard(data.get("call_id"))
        elif calls := data.get("tool_calls"):
            unanswered, asked_by = {call["call_id"] for call in calls}, row.number
    return asked_by if unanswered else None
