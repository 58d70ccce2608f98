"""A commit: what one transaction adds to a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row

from bus.journal.log.events import event_row, insert_rows
from bus.journal.log.results import refer_to_messages
from bus.journal.states.release import Release
from bus.journal.steps import StepEnded, StepStarted, end_steps, leave_steps, start_steps
from bus.journal.threads import HistoryItem, add_messages, close_thread
from bus.payloads import EndPayload, Payload

if TYPE_CHECKING:
    from bus.journal.ownership.leases import Lease


@dataclass(frozen=True, kw_only=True, slots=True)
class Commit:
    """What one transaction adds to a run."""

    events: Sequence[Payload] = ()
    started: Sequence[StepStarted] = ()
    ended: Sequence[StepEnded] = ()
    history: Sequence[HistoryItem] = ()
    planned: Sequence[str] = ()
    """Ids of steps that are recorded as started and whose call was not made."""
    unknown: Sequence[str] = ()
    """Ids of steps whose outcome is unknown; they stay open until a person decides."""
    release: Release | None = None
    """Give the run back without ending it; this writer commits nothing afterwards."""
    error_code: str | None = None
    """With an ``end`` among the events: the code of the error that ended the run, for lists of runs."""


def record(
    connection: Connection,
    run: Lease | Row[Any],
    fence: int,
    change: Commit,
    numbered: Sequence[Payload],
    blocks: Sequence[dict[str, Any]] = (),
) -> str | None:
    """Write all of ``change`` but the run's row; return the thread's next queued run if this one ended.

    ``run`` is its lease, or its row as ``lock_run`` returned it; ``numbered`` are its events with their numbers,
    ``blocks`` the rows of sealed deltas. Called after the transition that checked the ownership, which has locked the
    run's row.
    """
    written, ended = refer_to_messages(numbered, change.ended, change.history)
    rows = [event_row(payload, run.run_id, run.thread_id, fence) for payload in written]
    insert_rows(connection, [*blocks, *rows])
    end_steps(connection, ended)
    start_steps(connection, run.run_id, fence, change.started)
    leave_steps(connection, change.planned, "planned")
    leave_steps(connection, change.unknown, "unknown")
    add_messages(connection, run, change.history)
    is_over = any(isinstance(payload, EndPayload) for payload in numbered)
    return close_thread(connection, run) if is_over else None
