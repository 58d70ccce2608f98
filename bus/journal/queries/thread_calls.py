"""The tool calls of a thread: those that a person confirmed, and the latest one."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import orjson
from sqlalchemy import Connection, select

from bus.journal.approvals import approved_by
from bus.journal.paging.lists import present
from config.clock import stamp
from config.database.tables import approvals, messages, runs, steps

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
    said = _messages_about(connection, step)
    confirmed = confirmed_calls(connection, thread_key, [step.run_id]).get((step.run_id, step.call_id), {})
    fields = {
        "tool": step.name,
        "args": said.get("edited") or confirmed.get("args") or said.get("arguments"),
        "run_id": step.run_id,
        "call_id": step.call_id,
        "status": step.status,
        "result": said.get("result"),
    }
    return present(fields)


def _messages_about(connection: Connection, step: Any) -> dict[str, Any]:
    """Return what the run's messages say of a call: the ``arguments`` it was asked for with, ``edited``, ``result``."""
    query = select(messages.c.data_json).where(
        messages.c.run_id == step.run_id, messages.c.data_json.contains(step.call_id, autoescape=True)
    )
    said: dict[str, Any] = {}
    for (text,) in connection.execute(query.order_by(messages.c.number)):
        data = orjson.loads(text)
        said |= data if data.get("call_id") == step.call_id else {}
        said |= next((call for call in data.get("tool_calls") or () if call["call_id"] == step.call_id), {})
    return said
