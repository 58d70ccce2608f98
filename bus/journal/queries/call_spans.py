"""The calls of models and tools of a run with their spans."""

from __future__ import annotations

from typing import Any

import orjson
from sqlalchemy import Connection, select

from config.database.tables import steps


def call_spans(connection: Connection, run_id: str) -> list[dict[str, Any]]:
    """Return the calls that have ended, in order: step, kind, name, outcome, and ``spans`` as recorded."""
    names = ("id", "number", "kind", "name", "call_id", "status", "spans_json")
    columns = [steps.c[name] for name in names]
    wanted = (steps.c.run_id == run_id, steps.c.ended_ms.is_not(None))
    rows = connection.execute(select(*columns).where(*wanted).order_by(steps.c.number))
    return [
        {
            "step_id": row.id,
            "number": row.number,
            "kind": row.kind,
            "name": row.name,
            **({"call_id": row.call_id} if row.call_id is not None else {}),
            "outcome": row.status,
            "spans": orjson.loads(row.spans_json) if row.spans_json is not None else [],
        }
        for row in rows
    ]
