"""What a recording has of a run: read for its export, and the conversation before it, written for its replay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection, bindparam, insert, select

from bus.identity.access import rows_for
from bus.identity.errors import forbidden
from bus.journal.errors import RunUnknown
from bus.journal.forks.errors import RUN_NOT_EXPORTABLE
from bus.journal.paging import ANY_OWNER, threads_of
from bus.journal.records.definition_store import read_pinned
from bus.journal.records.steps import TOOL, WORKFLOW, steps_of
from bus.journal.records.threads import HistoryItem, Past, Summary, history
from bus.journal.storage.summaries import newest_summary
from bus.payloads import TERMINAL
from config.database.engine import WALL_MS, Database
from config.database.tables import events, messages, runs, summaries, threads
from config.identity.principal import Principal, Verb
from config.ids import new_id


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedRun:
    """A run that has ended, with what its models answered and what became of its calls."""

    row: Any
    """Of the table ``runs``."""
    definition_json: str
    steps: Sequence[Mapping[str, Any]]
    messages: Sequence[HistoryItem]
    """Its part of the conversation, the input first."""
    answer_ids: Mapping[str, str]
    """The id of a step -> that of the message which the model call made."""

    @property
    def labels(self) -> list[str]:
        """What the run has read, and its thread before."""
        return sorted(orjson.loads(self.row.labels_json or "[]"))


def recorded_run(database: Database, principal: Principal, run_id: str) -> RecordedRun:
    """Return a run for its export.

    Raises:
        RunUnknown: there is no such run, or the principal does not see it.
        FORBIDDEN: the principal does not see the thread, whose messages the run was given.
        RUN_NOT_EXPORTABLE: it has not ended, or a replay could not repeat it.
    """
    with database.read() as connection:
        row = connection.execute(select(runs).where(runs.c.id == run_id, rows_for(principal, Verb.SEE, runs))).first()
        if row is None:
            raise RunUnknown(run_id=run_id)
        thread_query = select(threads.c.key).where(threads.c.key == row.thread_key, threads_of(principal, ANY_OWNER))
        if connection.execute(thread_query).first() is None:
            raise forbidden(principal, Verb.SEE, f"the thread of run '{run_id}'")
        definition_json = read_pinned(connection, row.definition_digest)
        items = _messages_of(connection, row)
        problem = _problem(row, definition_json, items)
        if problem is not None:
            raise RUN_NOT_EXPORTABLE(f"run '{run_id}' {problem}", run_id=run_id)
        answer_ids = {line.step_id: line.message_id for line in connection.execute(_SAID, {"run_": run_id})}
        return RecordedRun(
            row=row,
            definition_json=definition_json or "",
            steps=steps_of(connection, run_id),
            messages=items,
            answer_ids=answer_ids,
        )


def _problem(row: Any, definition_json: str | None, items: Sequence[HistoryItem]) -> str | None:
    """Return why a run cannot be replayed; None where it can be."""
    if row.status not in TERMINAL:
        return f"is {row.status}; wait for its end, or stop it with `./callboard cancel {row.id}`."
    if row.kind == TOOL:
        return "is one call of a tool and asked no model; test the tool itself."
    if row.kind == WORKFLOW:
        return "is of a workflow, whose nodes a replay does not walk; play it with the kit's workflow."
    if row.handed_from_json is not None:
        return "was handed over to another agent, and a replay runs one agent; export a run of each."
    if row.reason == "prompt_refused" or row.error_code == "prompt_guard_failed":
        return "was ended by the prompt guard, so no answer of its model counted; test the guard itself."
    if definition_json is None or not any(item.role == "user" for item in items):
        return "has no definition or no messages any more, since they were removed; export a run that has them."
    if sum(item.role == "user" for item in items) > 1:
        return "got further messages while it ran, and a replay gives it one; export a run without them."
    return None


def conversation_before(database: Database, run: RecordedRun, max_chars: int, *, with_summary: bool) -> Past:
    """Return the newest messages of the thread before the run's own, slightly more than ``max_chars`` characters."""
    row, summary = run.row, None
    with database.read() as connection:
        if with_summary and row.turn > 1:
            summary = newest_summary(connection, row.thread_key, row.agent_id, row.turn, max_chars)
        return history(connection, row.thread_key, row.turn - 1, max_chars, summary)


def import_conversation(
    database: Database,
    principal: Principal,
    agent_id: str,
    *,
    items: Iterable[HistoryItem],
    summary: Summary | None,
    labels: Iterable[str],
) -> str:
    """Make a thread that begins with these messages and has read what has these labels, and return its id."""
    rows = [_message_row(item) for item in items]
    last = max([row["number"] for row in rows], default=summary.upto[1] if summary is not None else 0)
    thread: dict[str, Any] = {
        "id": new_id("thr"),
        "tenant": principal.tenant,
        "principal": principal.id,
        "agent_id": agent_id,
    }
    thread |= {"title": "Replay", "next_message": last + 1, "labels_json": orjson.dumps(sorted(labels)).decode()}
    with database.write() as connection:
        insertion = insert(threads).values(**thread, private=True, created_ms=WALL_MS, updated_ms=WALL_MS)
        key = connection.execute(insertion.returning(threads.c.key)).scalar_one()
        for message in rows:
            connection.execute(insert(messages).values(**message, thread_key=key, created_ms=WALL_MS))
        if summary is not None:
            connection.execute(insert(summaries).values(**_summary_row(summary, agent_id), thread_key=key))
    return str(thread["id"])


def _message_row(item: HistoryItem) -> dict[str, Any]:
    ids: dict[str, Any] = {"id": item.id, "run_id": "run_replayed", "turn": item.turn, "number": item.number}
    return ids | {"role": item.role, "data_json": item.data_json, "partial": item.partial}


def _summary_row(summary: Summary, agent_id: str) -> dict[str, Any]:
    upto_turn, upto_number = summary.upto
    place: dict[str, Any] = {"from_number": summary.from_number, "upto_turn": upto_turn, "upto_number": upto_number}
    text = {"text": summary.text, "facts_json": orjson.dumps(dict(summary.facts)).decode()}
    return {"id": new_id("sum"), "agent_id": agent_id, "model": "", "created_ms": WALL_MS, **place, **text}


def _messages_of(connection: Connection, row: Any) -> list[HistoryItem]:
    message_rows = connection.execute(_MESSAGES, {"run_": row.id, "thread_": row.thread_key})
    return [
        HistoryItem(
            id=message.id,
            role=message.role,
            data=orjson.loads(message.data_json),
            partial=message.partial,
            turn=message.turn,
            number=message.number,
        )
        for message in message_rows
    ]


_MESSAGES = (
    select(messages)
    .where(messages.c.run_id == bindparam("run_"), messages.c.thread_key == bindparam("thread_"))  # forks have copies
    .order_by(messages.c.number)
)
_SAID = select(events.c.step_id, events.c.message_id).where(
    events.c.run_id == bindparam("run_"), events.c.type == "message", events.c.step_id.is_not(None)
)
