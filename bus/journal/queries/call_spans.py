"""The tool calls of a run with their spans."""

from __future__ import annotations

from typing import Any

import orjson
from sqlalchemy import Connection, select

from config.database.tables import steps


def call_spans(connection: Connection, run_id: str) -> list[dict[str, Any]]:
    """Return the calls that have ended, in order: step, tool, outcome, and ``spans`` as the call recorded them."""
    columns = (steps.c.id, steps.c.number, steps.c.name, steps.c.call_id, steps.c.status, steps.c.spans_json)
    wanted = (steps.c.run_id == run_id, steps.c.kind == "tool", steps.c.ended_ms.is_not(None))
    rows = connection.execute(select(*columns).where(*wanted).order_by(steps.c.number))
    return [
        {
            "step_id": row.id,
            "number": row.number,
            "name": row.name,
            "call_id": row.call_id,
            "outcome": row.status,
            "spans": orjson.loads(row.spans_json) if row.spans_json is not None else [],
        }
        for row in rows
    ]
