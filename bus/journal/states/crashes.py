"""Crashes: when the loss of an owner counts as one, its note, and the rule by which a run becomes a suspect.

The rule and its reasons are in docs/decisions/0030-suspects.md and 0030-suspects.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import orjson
from sqlalchemy import Connection, Row, bindparam, select

from bus.journal.states.conditions import note_company, require_writable
from bus.journal.states.owned import set_crashes
from config.clock import stamp
from config.database.engine import Database
from config.database.tables import runs, steps
from config.text.names import counted_names

LEASE_EXPIRED = "its lease expired"
SHOWN = 5
"""Most names of open steps in a note."""
SUSPECT_AFTER = 2
"""So many crashes make a run a suspect if the last one was in a tool call or between two steps."""
ALWAYS_SUSPECT_AFTER = 3
"""So many crashes make a run a suspect in any case."""


def crash(connection: Connection, run_id: str, fence: int, owner: str | None, seen: str) -> dict[str, Any]:
    """Return the note of one crash: when it was noticed (``at``), the lost owner, and the steps that were open."""
    at_work = connection.execute(_AT_WORK, {"run_": run_id}).all()
    names = counted_names(f"{step.kind} {step.name}" for step in at_work)
    note = {"at": stamp(), "attempt": fence, "seen": seen, "during": ", ".join(names[:SHOWN]) or "nothing yet"}
    only_waited = bool(at_work) and all(step.kind == "model" for step in at_work)
    return note | {"suspect": not only_waited} | ({"owner": owner} if owner else {})


def is_suspect(crashes: int, notes: Sequence[dict[str, Any]]) -> bool:
    """Return whether the next crash of a run ends it if it is alone, so that no other suspect may share its process.

    ``notes`` are the results of ``crash`` for each of its ``crashes``. A note of an earlier release does not say
    whether a tool call was open; it counts as if one was.
    """
    if crashes == SUSPECT_AFTER:
        return not notes or bool(notes[-1].get("suspect", True))
    return crashes >= ALWAYS_SUSPECT_AFTER


def must_be_alone(crashes: int, notes: Sequence[dict[str, Any]]) -> bool:
    """Return whether no other run may share the process of this suspect: its last crash had other runs in it too."""
    return bool(notes) and is_suspect(crashes, notes) and notes[-1].get("alone") is False


def clear_suspect(database: Database, run_id: str, fence: int) -> bool:
    """Clear the suspicion of a run that completed the tool calls of its crashes; return False if the fence is stale.

    Its crashes still count: after one more it is a suspect again in any case. One with three crashes stays a suspect,
    and needs no process of its own any more.
    """
    with database.write() as connection:
        owned = runs.c.id == run_id, runs.c.fence == fence, runs.c.status == "running"
        notes = orjson.loads(connection.execute(select(runs.c.crashes_json).where(*owned)).scalar() or "[]")
        if not notes:
            return False
        notes[-1] |= {"suspect": False, "alone": None}
        return set_crashes(connection, run_id, fence, orjson.dumps(notes).decode())


def suspect_beside(connection: Connection, run: Row[Any]) -> bool:
    """Return whether this run's lost owner had a suspect too: then the crash counts for the suspect only.

    The suspect's last note says from then on that it shared that owner, since this run leaves it.
    """
    is_beside = False
    for row in connection.execute(_BESIDE, {"owner_": run.owner, "run_": run.id}).all():
        notes = orjson.loads(row.crashes_json or "[]")
        if is_suspect(row.crashes, notes):
            is_beside = True
            if notes:
                notes[-1]["shared"] = run.owner
                note_company(connection, row.id, run.owner, orjson.dumps(notes).decode())
    return is_beside


def was_alone(connection: Connection, run: Row[Any]) -> bool:
    """Return whether the lost owner of this locked run worked on no other run when it was lost."""
    notes = orjson.loads(run.crashes_json or "[]")
    if notes and notes[-1].get("shared") == run.owner:
        return False
    return connection.execute(_BESIDE, {"owner_": run.owner, "run_": run.id}).first() is None


_BESIDE = select(runs.c.id, runs.c.crashes, runs.c.crashes_json).where(
    runs.c.status == "running", runs.c.owner == bindparam("owner_"), runs.c.id != bindparam("run_")
)
_AT_WORK = (
    select(steps.c.kind, steps.c.name)
    .where(steps.c.run_id == bindparam("run_"), steps.c.status == "started")
    .order_by(steps.c.number.desc())
)


# --- before a crash counts -------------------------------------------------------------------------

GRACE_BEATS = 1.5
"""The grace in units of the owner's pause between two heartbeats that fail."""


class LeaseGrace:
    """The runs whose leases expired, each with the time when this reaper first saw it in a database that takes writes.

    While the database is away no owner can extend its leases. An owner that lives extends them within a moment of the
    database's return; without the grace, a reaper that looks first would count it as crashed.
    """

    def __init__(self, time_s: float, clock: Callable[[], float]) -> None:
        self.time_s = time_s
        """Seconds that an owner has to extend its lease."""
        self._clock = clock
        self._since: dict[str, tuple[int, float]] = {}

    def __len__(self) -> int:
        return len(self._since)

    def is_over(self, connection: Connection, run: Row[Any]) -> bool:
        """Return whether the grace of this locked run's owner is over; the first call starts it."""
        fence, since = self._since.get(run.id, (0, 0.0))
        if fence == run.fence:
            return self._clock() - since >= self.time_s
        require_writable(connection, run.id)
        self._since[run.id] = run.fence, self._clock()
        return False

    def forget(self, run_id: str) -> None:
        """Start a new grace for this run the next time."""
        self._since.pop(run_id, None)

    def keep(self, run_ids: Iterable[str]) -> None:
        """Forget all runs but these."""
        self._since = {run_id: self._since[run_id] for run_id in run_ids if run_id in self._since}
