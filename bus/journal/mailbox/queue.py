"""The messages that wait in a thread: listed, edited, removed, put first, and sent now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import orjson
from sqlalchemy import Connection, Row, bindparam, select, update

from bus.identity.access import rows_for
from bus.journal.controls import STOP
from bus.journal.errors import CONTROL_REFUSED, MESSAGE_TAKEN, RunUnknown, ThreadUnknown
from bus.journal.log.commit import Commit
from bus.journal.mailbox.control import control_locked, record_change, record_control
from bus.journal.outbox import announce
from bus.journal.paging import Pages, present
from bus.journal.records.control_requests import NEXT, STEERS_OF_THREAD, request_of
from bus.journal.records.originals import write_originals
from bus.journal.records.steps import AGENT
from bus.journal.states.conditions import holds_thread
from bus.journal.unowned.transitions import CommitResult, lock_allowed_run, write
from bus.journal.unowned.turns import put_first
from bus.payloads import TERMINAL, HistoryPayload
from bus.sealing import Original
from config.clock import stamp
from config.database.engine import Database
from config.database.tables import messages, runs, threads
from config.identity.principal import Principal, Verb
from config.text.stored_texts import stored_line

BETWEEN = "\n\n"
"""Between the texts of messages that become one turn."""
MAX_MERGED_CHARS = 200_000
"""Most characters of such a turn; a text that does not fit waits as a message of its own."""
Place = Literal["first", "now"]
"""``first``: before the others that wait. ``now``: also stop the run that the thread is at."""
IS_CALL = "it is no message to an agent, and keeps the arguments that it has; remove it and send it anew"
NEVER_BEGUN = (
    runs.c.status == "queued",
    runs.c.ended_ms.is_(None),
    runs.c.started_ms.is_(None),
    runs.c.origin_id.is_(None),  # else it has recorded steps, which answer its text
)


def queued_messages(connection: Connection, thread_key: int) -> Sequence[Row[Any]]:
    """Lock and return the runs of a thread that have never begun, in the order of their turns."""
    return connection.execute(_QUEUED, {"key_": thread_key}).all()


def listed(
    database: Database,
    principal: Principal,
    thread_id: str,
    *,
    owner: str | None = None,
    after: int = 0,
    limit: int = 200,
) -> tuple[list[dict[str, Any]], int | None]:
    """Return what waits in a thread, the next one first: messages, and texts for its open run that it has not got.

    ``limit`` of them, or the messages that fit into 1 MB, and the ``after`` of the next page; None: this is the last.

    Raises:
        ThreadUnknown: there is no such thread, or the principal does not see it.
    """
    is_seen = rows_for(principal, Verb.SEE, runs)
    messages_ = Pages(query=_LISTED.where(is_seen), text=messages.c.data_json, order=(runs.c.turn,))
    with database.read() as connection:
        key = _thread_key(connection, principal, thread_id, owner)
        page = {"key_": key, "after": after, "page_limit": limit + 1}
        waiting, is_cut = messages_.read(connection, page)
        steers = connection.execute(STEERS_OF_THREAD.where(is_seen), {"key_": key}).all()
    entries = [pair for pair in map(_steer_entry, steers) if pair[0] > after]
    if is_cut:  # messages that were not read may come before a text behind these
        entries = [pair for pair in entries if pair[0] < waiting[-1].turn]
    entries = sorted(entries + [_message_entry(row) for row in waiting], key=lambda pair: pair[0])
    has_more = is_cut or len(entries) > limit
    return [entry for _, entry in entries[:limit]], entries[:limit][-1][0] if has_more else None


def _thread_key(connection: Connection, principal: Principal, thread_id: str, owner: str | None) -> int:
    its = {"tenant_": principal.tenant, "principal_": owner or principal.id, "id_": thread_id}
    key = connection.execute(_THREAD.where(rows_for(principal, Verb.SEE, threads)), its).scalar()
    if key is None:
        raise ThreadUnknown(thread_id=thread_id)
    return int(key)


def _message_entry(row: Any) -> tuple[int, dict[str, Any]]:
    entry = {"kind": "message", "run_id": row.id, "agent": row.agent_id, "at": stamp(row.created_ms)}
    return row.turn, entry | {"content": orjson.loads(row.data_json).get("content", "")}


def _steer_entry(row: Row[Any]) -> tuple[int, dict[str, Any]]:
    request = request_of(row)
    entry = {"kind": "steer", "run_id": row.run_id, "control_id": request.control_id, "by": row.by}
    return request.turn or 0, present(entry | {"content": request.content, "at": stamp(row.created_ms)})


def lock_queued(connection: Connection, principal: Principal, run_id: str, thread_id: str) -> Row[Any]:
    """Lock and return a run whose message waits.

    Raises:
        RunUnknown: there is none in this thread that the principal sees.
        FORBIDDEN: the principal may not do this with it.
        MESSAGE_TAKEN: the run has begun, or has ended.
    """
    row = lock_allowed_run(connection, principal, Verb.CONTROL, run_id)
    if row.thread_id != thread_id:
        raise RunUnknown(run_id=run_id)
    if row.status != "queued" or row.started_ms is not None or row.origin_id is not None:
        is_steered = row.status not in TERMINAL and row.kind == AGENT
        instead = "steer the run, or send another" if is_steered else "send another"
        raise MESSAGE_TAKEN(run_id=run_id, status=row.status, instead=instead)
    return row


def edit(
    database: Database,
    principal: Principal,
    thread_id: str,
    run_id: str,
    by: str,
    *,
    content: str | None = None,
    originals: Sequence[Original] = (),
    place: Place | None = None,
) -> tuple[CommitResult, CommitResult | None]:
    """Give a message that waits another text, another place, or both or neither.

    Returns what became of the message's run, and of the run that was stopped.

    Raises:
        RunUnknown, FORBIDDEN, MESSAGE_TAKEN: see ``lock_queued``.
        CONTROL_REFUSED: the run is one call of a tool or a workflow, which another text would not change.
    """
    with database.write() as connection:
        row = lock_queued(connection, principal, run_id, thread_id)
        if content is not None and row.kind != AGENT:
            raise CONTROL_REFUSED(request="for another text", problem=IS_CALL)
        stopped = _stop_head(database, connection, principal, row, by) if place == "now" else None
        if place is not None:
            queued = [other.id for other in queued_messages(connection, row.thread_key)]
            put_first(connection, row.thread_key, run_id, queued)
        write_originals(connection, run_id, originals)
        if content is not None:
            record_change(connection, principal, row, "edit")
        written = _rewrite(connection, row, content)
        if place is not None and connection.execute(_HEAD, {"key_": row.thread_key}).scalar() == run_id:
            announce(connection, run_id)  # its own wake-up may have come while another one was first
            written = replace(written, wake=run_id)
        return written, stopped


def add_to_message(connection: Connection, row: Row[Any], content: str) -> bool:
    """Append a text to the message of a locked run that has not begun, and return whether it fits."""
    whole = f"{_data_of(connection, row).get('content', '')}{BETWEEN}{content}"
    if len(whole) > MAX_MERGED_CHARS:
        return False
    _rewrite(connection, row, whole)
    return True


def _data_of(connection: Connection, row: Row[Any]) -> dict[str, Any]:
    text_json = connection.execute(_TEXT, {"key_": row.thread_key, "run_": row.id}).scalar_one()
    return dict(orjson.loads(text_json))


def _rewrite(connection: Connection, row: Row[Any], content: str | None) -> CommitResult:
    """Write that a message was edited, with its new text; None: it keeps its own."""
    kept = {name: getattr(row, name) for name in ("owner", "lease_until")}  # a process may wait to run it inline
    if content is not None:
        text_json = orjson.dumps(_data_of(connection, row) | {"content": content}).decode()
        connection.execute(_SET_TEXT, {"key_": row.thread_key, "run_": row.id, "text_json": text_json})
        kept["title"] = stored_line(content)
    return write(
        connection, row, Commit(events=[HistoryPayload(kind="edited", from_seq=row.turn, summary=content)]), **kept
    )


def remove(database: Database, principal: Principal, thread_id: str, run_id: str, by: str) -> CommitResult:
    """Take a message that waits out of its thread: its run is cancelled, and no model gets it.

    Raises:
        RunUnknown, FORBIDDEN, MESSAGE_TAKEN: see ``lock_queued``.
    """
    with database.write() as connection:
        row = lock_queued(connection, principal, run_id, thread_id)
        written = control_locked(database, connection, row, STOP, by, {"rollback": True})
        record_control(connection, principal, row, STOP, by)
        return written


def _stop_head(
    database: Database, connection: Connection, principal: Principal, row: Row[Any], by: str
) -> CommitResult | None:
    head_id = connection.execute(_HEAD, {"key_": row.thread_key}).scalar()
    if head_id is None or head_id == row.id:
        return None
    head = lock_allowed_run(connection, principal, Verb.CONTROL, head_id)
    if head.status == "queued" and head.started_ms is None:
        return None  # it has not begun, and now waits behind the message
    written = control_locked(database, connection, head, STOP, by, NEXT)
    record_control(connection, principal, head, STOP, by)
    return written


_OF_THREAD = runs.c.thread_key == bindparam("key_")
_QUEUED = select(runs).where(_OF_THREAD, *NEVER_BEGUN).order_by(runs.c.turn).with_for_update()
_HEAD = select(runs.c.id).where(_OF_THREAD, holds_thread(runs)).order_by(runs.c.turn).limit(1)
_THREAD = select(threads.c.key).where(
    threads.c.tenant == bindparam("tenant_"),
    threads.c.principal == bindparam("principal_"),
    threads.c.id == bindparam("id_"),
)
_LISTED = (
    select(runs.c.id, runs.c.agent_id, runs.c.turn, runs.c.created_ms, messages.c.data_json)
    .join(messages, messages.c.run_id == runs.c.id)
    .where(_OF_THREAD, *NEVER_BEGUN, messages.c.thread_key == runs.c.thread_key, messages.c.role == "user")
    .where(runs.c.turn > bindparam("after"))
    .order_by(runs.c.turn)
    .limit(bindparam("page_limit"))
)
_OF_RUN = (
    messages.c.thread_key == bindparam("key_"),
    messages.c.run_id == bindparam("run_"),
    messages.c.role == "user",
)
"""A fork of the thread has copies of its messages."""
_TEXT = select(messages.c.data_json).where(*_OF_RUN).limit(1)
_SET_TEXT = update(messages).where(*_OF_RUN).values(data_json=bindparam("text_json"))
