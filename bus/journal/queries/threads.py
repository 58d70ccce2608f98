"""Threads as clients and the terminal see them: listed, shown with their runs or messages, created and removed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import orjson
from sqlalchemy import JSON, ColumnElement, Connection, bindparam, cast, func, insert, or_, select, tuple_, type_coerce

from bus.identity.access import rows_for
from bus.journal.errors import ThreadUnknown
from bus.journal.paging import NOW, MessagesUntil, Pages, newest_first, present, threads_of
from bus.journal.records.control_requests import STEER, UNDELIVERED, request_of
from bus.journal.records.questions import approved_by
from bus.journal.retention.removal import remove_threads, require_no_open_run
from config.clock import stamp
from config.database.engine import WALL_MS, Database
from config.database.tables import approvals, controls, messages, runs, steps, threads
from config.identity.principal import Principal, Verb
from config.ids import new_id
from config.text.stored_texts import stored_line

# --- the threads


class Threads:
    """The threads that a principal sees; each call uses a connection of its own.

    ``owner`` is the principal whose threads are meant; None: the one that asks. ``ThreadUnknown`` is raised if there is
    no such thread, or the principal does not see it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def newest(
        self,
        principal: Principal,
        *,
        owner: str | None = None,
        search: str | None = None,
        limit: int = 50,
        before_ms: int | None = None,
        before_id: str = "",
    ) -> list[dict[str, Any]]:
        """Return threads, the last used one first; the next page begins after the last one's time and id.

        The ``owner`` ``ANY_OWNER`` stands for all principals. The threads of child runs are left out: their parents
        show them. ``search`` is in the title, or in what a person or an agent wrote in the thread: of each thread that
        it is compared with, the messages are read until one has it.
        """
        query = select(threads).where(threads_of(principal, owner), threads.c.parent_id.is_(None))
        if search:
            is_sqlite = self._database.engine.dialect.name == "sqlite"
            in_messages = _has_message(search, is_sqlite=is_sqlite)
            query = query.where(or_(threads.c.title.icontains(search, autoescape=True), in_messages))
        order = threads.c.updated_ms, threads.c.id
        query = newest_first(query, *order, limit=limit, before_ms=before_ms, before_id=before_id)
        with self._database.read() as connection:
            return [_summary(row) for row in connection.execute(query)]

    def get(self, principal: Principal, thread_id: str, *, owner: str | None = None) -> dict[str, Any]:
        """Return one thread with its runs."""
        query = select(runs.c.id, runs.c.status, runs.c.reason, runs.c.created_ms).order_by(runs.c.turn)
        query = query.where(rows_for(principal, Verb.SEE, runs))
        with self._database.read() as connection:
            row = _find(connection, principal, thread_id, owner)
            run_rows = connection.execute(query.where(runs.c.thread_key == row.key)).all()
        runs_ = [
            present({"run_id": r.id, "status": r.status, "reason": r.reason, "created_at": stamp(r.created_ms)})
            for r in run_rows
        ]
        return _summary(row) | {"runs": runs_}

    def agent_of(self, principal: Principal, thread_id: str) -> str:
        """Return the id of the agent that the thread was begun with, or to which one of its runs was handed over."""
        with self._database.read() as connection:
            return str(_find(connection, principal, thread_id, None).agent_id)

    def open(self, principal: Principal, agent_id: str, title: str, *, is_private: bool = False) -> str:
        """Insert an empty thread and return its id."""
        id_ = new_id("thr")
        row = {
            "id": id_,
            "tenant": principal.tenant,
            "principal": principal.id,
            "private": is_private,
            "agent_id": agent_id,
            "title": stored_line(title),
            "next_message": 1,
            "created_ms": WALL_MS,
            "updated_ms": WALL_MS,
        }
        with self._database.write() as connection:
            connection.execute(insert(threads).values(**row))
        return id_

    def messages(
        self, principal: Principal, thread_id: str, *, owner: str | None = None, limit: int = 200
    ) -> list[dict[str, Any]]:
        """Return the first ``limit`` messages of a thread, in reading order, of any size."""
        entries, has_more = self.message_page(principal, thread_id, owner=owner, after=(0, 0), limit=limit)
        while has_more and len(entries) < limit:
            last = entries[-1]["turn"], entries[-1]["number"]
            page, has_more = self.message_page(
                principal, thread_id, owner=owner, after=last, limit=limit - len(entries)
            )
            entries += page
        return entries

    def message_page(
        self,
        principal: Principal,
        thread_id: str,
        *,
        after: tuple[int, int],
        limit: int,
        owner: str | None = None,
        at: MessagesUntil = NOW,
    ) -> tuple[list[dict[str, Any]], bool]:
        """Return up to ``limit`` messages after ``(turn, number)`` or 1 MB of them, and whether there may be more.

        ``at`` is a past state of the thread: those that were not there yet are left out.
        """
        turn, number = after
        with self._database.read() as connection:
            parameters = {
                "thread_key": _find(connection, principal, thread_id, owner).key,
                "after_turn": turn,
                "after_number": number,
                "at_number": at.number,
                "at_ms": at.time_ms,
            }
            rows, is_cut = _MESSAGES.read(connection, parameters | {"page_limit": limit})
        return [_shown(row) for row in rows], is_cut or len(rows) == limit

    def undelivered(self, principal: Principal, thread_id: str) -> list[dict[str, Any]]:
        """Return the texts for runs of the thread that no model got, in the order of their arrival.

        Each has its ``run_id``, and ``by``, ``content`` and ``at``.
        """
        query = select(controls).join(runs, runs.c.id == controls.c.run_id).order_by(controls.c.id)
        query = query.where(controls.c.kind == STEER, controls.c.state == UNDELIVERED)
        with self._database.read() as connection:
            key = _find(connection, principal, thread_id, None).key
            rows = connection.execute(query.where(runs.c.thread_key == key, rows_for(principal, Verb.SEE, runs))).all()
        return [
            {"run_id": row.run_id, "by": row.by, "content": request_of(row).content, "at": stamp(row.created_ms)}
            for row in rows
        ]

    def confirmed_calls(
        self, principal: Principal, thread_id: str, run_ids: Collection[str]
    ) -> dict[CallKey, dict[str, Any]]:
        """Return the calls of these runs of the thread that persons confirmed, as ``confirmed_calls`` does."""
        with self._database.read() as connection:
            return confirmed_calls(connection, _find(connection, principal, thread_id, None).key, run_ids)

    def latest_answer(self, principal: Principal, thread_id: str) -> str:
        """Return the text that an agent wrote last in the thread; empty where none has."""
        written = messages.c.role == "assistant", messages.c.thread_key == bindparam("key_")
        query = select(messages.c.data_json).where(*written).order_by(messages.c.turn.desc(), messages.c.number.desc())
        with self._database.read() as connection:
            key = _find(connection, principal, thread_id, None).key
            data_json = connection.execute(query.limit(1), {"key_": key}).scalar()
        return "" if data_json is None else str(orjson.loads(data_json).get("content") or "")

    def latest_call(self, principal: Principal, thread_id: str) -> dict[str, Any] | None:
        """Return the thread's latest tool call, as ``latest_call`` does; None where it has none."""
        with self._database.read() as connection:
            return latest_call(connection, _find(connection, principal, thread_id, None).key)

    def require_removable(self, principal: Principal, thread_ids: Sequence[str], owner: str | None = None) -> None:
        """Check that ``remove`` would remove these threads now, and raise what it would raise."""
        with self._database.read() as connection:
            require_no_open_run(connection, principal, thread_ids, owner)

    def remove(self, principal: Principal, thread_ids: Sequence[str], owner: str | None = None) -> None:
        """Remove threads with their messages and runs, all or none.

        Raises:
            FORBIDDEN: the principal may not delete one of them.
            RUN_OPEN: a run of one of them has not ended.
        """
        remove_threads(self._database, principal, thread_ids, owner)


_MESSAGES = Pages(
    query=select(messages)
    .where(
        messages.c.thread_key == bindparam("thread_key"),
        tuple_(messages.c.turn, messages.c.number) > tuple_(bindparam("after_turn"), bindparam("after_number")),
        messages.c.number <= bindparam("at_number"),
        messages.c.created_ms <= bindparam("at_ms"),
    )
    .order_by(messages.c.turn, messages.c.number)
    .limit(bindparam("page_limit")),
    text=messages.c.data_json,
    order=(messages.c.turn, messages.c.number),
)


def _find(connection: Connection, principal: Principal, thread_id: str, owner: str | None) -> Any:
    row = connection.execute(select(threads).where(threads.c.id == thread_id, threads_of(principal, owner))).first()
    if row is None:
        raise ThreadUnknown(thread_id=thread_id)
    return row


def _has_message(text: str, *, is_sqlite: bool) -> ColumnElement[bool]:
    """Return the condition that what a person or an agent wrote in a thread has this text, in any case.

    It is no EXISTS: PostgreSQL may answer one with the messages of all threads of all tenants.
    """
    json = func.replace(messages.c.data_json, "\\u0000", "\\ufffd")  # NUL, which PostgreSQL has in no text
    content = (type_coerce if is_sqlite else cast)(json, JSON)["content"].as_string()
    written = messages.c.role.in_(("user", "assistant")), content.icontains(text, autoescape=True)
    query = select(messages.c.number).where(messages.c.thread_key == threads.c.key, *written)
    return query.limit(1).scalar_subquery().is_not(None)


def _summary(row: Any) -> dict[str, Any]:
    return present(
        {
            "thread_id": row.id,
            "title": row.title,
            "agent": row.agent_id,
            "principal": row.principal,
            "private": row.private or None,
            "open_run": row.open_run,
            "forked_from": row.forked_from,
            "forked_at": row.forked_to or None,
            "created_at": stamp(row.created_ms),
            "updated_at": stamp(row.updated_ms),
        }
    )


def _shown(row: Any) -> dict[str, Any]:
    return present(
        {
            "number": row.number,
            "turn": row.turn,
            "run_id": row.run_id,
            "message_id": row.id,
            "role": row.role,
            "partial": row.partial or None,
            "undone": row.undone or None,
            "at": stamp(row.created_ms),
            **orjson.loads(row.data_json),
        }
    )


# --- the tool calls of a thread ---------------------------------------------------------------------

CONFIRMING = ("approve", "run_again")
"""The answers after which a call is made."""

CallKey = tuple[str, str]
"""The id of the run, and that of the call."""


def confirmed_calls(connection: Connection, thread_key: int, run_ids: Collection[str]) -> dict[CallKey, dict[str, Any]]:
    """Return the calls of some runs of a thread that persons confirmed, each with who did so and its arguments then.

    Of a call that was confirmed twice, the later confirmation is returned.
    """
    query = select(approvals).join(runs, runs.c.id == approvals.c.run_id)
    query = query.where(runs.c.thread_key == thread_key, runs.c.id.in_(run_ids), approvals.c.decision.in_(CONFIRMING))
    rows = connection.execute(query.order_by(approvals.c.decided_ms, approvals.c.id))
    return {(row.run_id, row.call_id): _confirmed(row) for row in rows}


def _confirmed(row: Any) -> dict[str, Any]:
    answer = orjson.loads(row.decision_json) if row.decision_json else {}
    arguments = answer.get("arguments")
    fields = {
        "tool": row.name,
        "args": arguments if arguments is not None else orjson.loads(row.arguments_json),
        "by": row.decided_by,
        "approved_by": approved_by(row) or None,
        "at": stamp(row.decided_ms),
    }
    return present(fields)


def latest_call(connection: Connection, thread_key: int) -> dict[str, Any] | None:
    """Return the call that the thread's last run with calls began last, with its result where it has ended."""
    query = select(*steps.c["id", "run_id", "name", "call_id", "status"])
    query = query.join(runs, runs.c.id == steps.c.run_id).where(runs.c.thread_key == thread_key, steps.c.kind == "tool")
    step = connection.execute(query.order_by(runs.c.turn.desc(), steps.c.number.desc()).limit(1)).first()
    if step is None:
        return None
    message_data = _messages_about(connection, step)
    confirmed = confirmed_calls(connection, thread_key, [step.run_id]).get((step.run_id, step.call_id), {})
    fields = {
        "tool": step.name,
        "args": message_data.get("edited") or confirmed.get("args") or message_data.get("arguments"),
        "run_id": step.run_id,
        "call_id": step.call_id,
        "status": step.status,
        "result": message_data.get("result"),
    }
    return present(fields)


def _messages_about(connection: Connection, step: Any) -> dict[str, Any]:
    """Return what the run's messages say of a call: the ``arguments`` it was asked for with, ``edited``, ``result``."""
    query = select(messages.c.data_json).where(
        messages.c.run_id == step.run_id, messages.c.data_json.contains(step.call_id, autoescape=True)
    )
    message_data: dict[str, Any] = {}
    for (text,) in connection.execute(query.order_by(messages.c.number)):
        data = orjson.loads(text)
        message_data |= data if data.get("call_id") == step.call_id else {}
        message_data |= next((call for call in data.get("tool_calls") or () if call["call_id"] == step.call_id), {})
    return message_data
