"""What can be told of an owner that was lost, for whoever has to find out why."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, bindparam, select

from config.clock import stamp
from config.tables import steps

UNHEARD = "nothing was heard of it"
SHOWN = 5
"""Steps named that were at work."""


def crash(connection: Connection, run_id: str, fence: int, owner: str | None, seen: str) -> dict[str, Any]:
    """Return the line of one crash: when it was noticed, whose it was, and what was at work."""
    at_work = [f"{step.kind} {step.name}" for step in connection.execute(_AT_WORK, {"its_run": run_id})]
    note = {"at": stamp(), "attempt": fence, "seen": seen, "during": ", ".join(at_work[:SHOWN]) or "nothing yet"}
    return note | ({"owner": owner} if owner else {})


_AT_WORK = (
    select(steps.c.kind, steps.c.name)
    .where(steps.c.run_id == bindparam("its_run"), steps.c.status == "started")
    .order_by(steps.c.number.desc())
)
