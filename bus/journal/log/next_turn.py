"""The turn that a steer begins where its run ended before it was read."""

from __future__ import annotations

from typing import Any

import orjson
from sqlalchemy import Connection, bindparam, insert, select

from bus.journal.log.events import event_row
from bus.journal.records.control_requests import ControlRequest
from bus.journal.records.steps import AGENT
from bus.journal.states.conditions import insert_run
from bus.payloads import StatusPayload
from config.clock import epoch_ms, stamp
from config.database.tables import events, messages, runs
from config.ids import new_id
from config.text.stored_texts import stored_line
from config.tracing import new_trace_id

INHERITED = """
    thread_key thread_id tenant principal roles_json credential credential_id context_json private agent_id agent_name
    definition_digest model detached queue on_waiting observers_json correlation_id journal
""".split()
"""What the new run has as the one that ended; a grant and metadata belong to the message that these came with."""


def begin_turn(connection: Connection, run_id: str, request: ControlRequest) -> None:
    """Insert a run for the steer of an ended one, in its place among the thread's messages; its thread announces it."""
    earlier = connection.execute(_RUN, {"id_": run_id}).one()
    now_ms, content = epoch_ms(), request.content
    run: dict[str, Any] = {name: getattr(earlier, name) for name in INHERITED}
    run |= {"id": new_id("run"), "kind": AGENT, "turn": request.number, "trace_id": new_trace_id()}
    run |= {"title": stored_line(content)}
    insert_run(connection, run)
    message = {"thread_key": earlier.thread_key, "number": request.number, "turn": request.number, "run_id": run["id"]}
    message |= {"id": new_id("msg"), "role": "user", "partial": False, "created_ms": now_ms}
    message |= {"data_json": orjson.dumps({"content": content, "control_id": request.control_id}).decode()}
    connection.execute(insert(messages).values(**message))
    first = StatusPayload(
        seq=1,
        at=stamp(now_ms),
        status="queued",
        agent=earlier.agent_id,
        trace_id=run["trace_id"],
        correlation_id=earlier.correlation_id or run["trace_id"],
    )
    connection.execute(insert(events).values(**event_row(first, run["id"], earlier.thread_id, 0)))


_RUN = select(*(runs.c[name] for name in INHERITED)).where(runs.c.id == bindparam("id_"))
