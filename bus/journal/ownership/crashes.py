"""What is known of the owners that a run lost: a note on each, and whether the run itself is suspected.

The rule and its reasons are docs/decisions/0030-suspects.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from sqlalchemy import Connection, Row, bindparam, select, update

from config.clock import stamp
from config.database import Database
from config.tables import runs, steps

UNHEARD = "nothing was heard of it"
SHOWN = 5
"""Steps named that were at work."""
SUSPECT_AFTER = 2
"""Crashes of which the last was in a tool call, or between two steps, make a run a suspect."""
ALWAYS_SUSPECT_AFTER = 3
"""So many crashes do, whatever was at work."""


def crash(connection: Connection, run_id: str, fence: int, owner: str | None, seen: str) -> dict[str, Any]:
    """Return the note of one crash: when it was noticed, whose it was, and what was at work."""
    at_work = connection.execute(_AT_WORK, {"its_run": run_id}).all()
    names = [f"{step.kind} {step.name}" for step in at_work]
    note = {"at": stamp(), "attempt": fence, "seen": seen, "during": ", ".join(names[:SHOWN]) or "nothing yet"}
    only_waited = bool(at_work) and all(step.kind == "model" for step in at_work)
    return note | {"suspect": not only_waited} | ({"owner": owner} if owner else {})


def is_suspect(crashes: int, notes: Sequence[dict[str, Any]]) -> bool:
    """Return whether the next crash of a run ends it, so that no other suspect may share its process.

    ``notes`` are what ``crash`` returned for each of its ``crashes``. A note of an earlier release does not say
    whether a tool was at work; then it counts as if one was.
    """
    if crashes == SUSPECT_AFTER:
        return not notes or bool(notes[-1].get("suspect", True))
    return crashes >= ALWAYS_SUSPECT_AFTER


def absolve(database: Database, run_id: str, fence: int) -> bool:
    """Note that a run survived the calls it was suspected of; return whether its owner may say so.

    Its crashes still count: after one more it is a suspect again, whatever was at work.
    """
    with database.write() as connection:
        its = runs.c.id == run_id, runs.c.fence == fence, runs.c.status == "running"
        notes = orjson.loads(connection.execute(select(runs.c.crashes_json).where(*its)).scalar() or "[]")
        if not notes:
            return False
        notes[-1]["suspect"] = False
        values = {"crashes_json": orjson.dumps(notes).decode()}
        return connection.execute(update(runs).where(*its).values(**values)).rowcount == 1


def suspect_beside(connection: Connection, run: Row[Any]) -> bool:
    """Return whether the owner that this run lost has a suspect too: the loss is held against that one alone."""
    suspects = connection.execute(_SUSPECTS, {"its_owner": run.owner, "its_run": run.id})
    return any(is_suspect(one.crashes, orjson.loads(one.crashes_json or "[]")) for one in suspects)


_SUSPECTS = select(runs.c.crashes, runs.c.crashes_json).where(
    runs.c.status == "running",
    runs.c.owner == bindparam("its_owner"),
    runs.c.id != bindparam("its_run"),
    runs.c.crashes >= SUSPECT_AFTER,
)
_AT_WORK = (
    select(steps.c.kind, steps.c.name)
    .where(steps.c.run_id == bindparam("its_run"), steps.c.status == "started")
    .order_by(steps.c.number.desc())
)
