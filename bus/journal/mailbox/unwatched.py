"""What the reaper does with a run that had no viewers for as long as its policy says: it is stopped, or paused."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, delete, select

from bus.journal.controls import PAUSE, STOP
from bus.journal.mailbox.control import WAIT_S, control_locked
from bus.journal.records.on_disconnect import after_s, policy_in, put_off
from bus.journal.states.codes import RunStatus
from bus.journal.unowned.transitions import CommitResult
from bus.payloads import TERMINAL
from config.database.engine import WALL_MS, Database
from config.database.tables import timers

BY = "on_disconnect"
"""Who requested these controls, as the run's log says."""
_CONTROLS = {"stop": STOP, "pause": PAUSE}


def leave_unwatched(
    database: Database, connection: Connection, row: Row[Any], timer_id: str, wait_s: int = WAIT_S
) -> CommitResult | None:
    """Stop or pause a locked run without viewers, as a client would; None where nothing is written.

    The timer stays, put off, for as long as the run is open. A run that waits already is not paused.
    """
    due = select(timers).where(timers.c.id == timer_id, timers.c.due_ms <= WALL_MS)
    timer = connection.execute(due).first()
    if timer is None:  # a viewer came meanwhile
        return None
    policy = policy_in(timer)
    command = _CONTROLS[policy.partition(":")[0]]
    is_parked = command is PAUSE and row.status == RunStatus.WAITING
    put_off(connection, row.id, policy, is_parked=is_parked)
    written = None
    if row.status not in TERMINAL and not is_parked:
        data = {"unwatched_s": after_s(policy)} if command is STOP else None
        written = control_locked(database, connection, row, command, BY, data, wait_s)
    if row.status in TERMINAL or (written is not None and written.status in TERMINAL):
        connection.execute(delete(timers).where(timers.c.id == timer_id))
    return written
