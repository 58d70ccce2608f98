"""Expiry of logs: all events of a run but its end are deleted, and one ``withdrawn`` event declares their numbers.

Readers need no special case: the gap is declared, and the end comes last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, exists, select, update

from bus.journal.log.events import event_row
from bus.payloads import EXPIRED, WithdrawnPayload
from config.clock import stamp
from config.database.tables import events, runs


def has_log() -> ColumnElement[bool]:
    """Return the condition that a run's log has more than the two events that expiry leaves."""
    return exists(select(events.c.seq).where(events.c.run_id == runs.c.id, events.c.seq < runs.c.reserved_to - 1))


def expire_logs(connection: Connection, ended: Sequence[Row[Any]]) -> None:
    """Delete all events of ended runs but the last; ``ended`` has ``id``, ``thread_id`` and ``reserved_to``.

    The number before the end's becomes a ``withdrawn`` event. It overwrites the last deleted row, so that readers of
    all runs, who follow ``position``, do not see an old log as new events.
    """
    for run in ended:
        _expire(connection, run.id, run.thread_id, run.reserved_to)


def _expire(connection: Connection, run_id: str, thread_id: str, end_seq: int) -> None:
    its = events.c.run_id == run_id
    ending = select(events.c.seq, events.c.type).where(its, events.c.seq >= end_seq - 1)
    if not any(row.type == "end" and row.seq == end_seq for row in connection.execute(ending)):
        return  # a log without an end is left as it is
    before = select(events.c.position, events.c.fence).where(its, events.c.seq < end_seq)
    last = connection.execute(before.order_by(events.c.seq.desc()).limit(1)).one()
    connection.execute(delete(events).where(its, events.c.seq < end_seq, events.c.position != last.position))
    gone = WithdrawnPayload(seq=end_seq - 1, at=stamp(), ranges=[[1, end_seq - 2]], reason=EXPIRED)
    row = event_row(gone, run_id, thread_id, last.fence)
    connection.execute(update(events).where(events.c.position == last.position).values(**row))
