"""Transitions of a run that no process holds a lease of: a stop, an answer, code that came, an expiry, a crash.

Each takes the run's row as ``lock_run`` returned it. Where events are written, the fence is raised, so that the writes
of an earlier owner are refused; missing numbers are declared as a new owner would, and then the next ones are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Connection, Row, and_, bindparam, select, update

from bus.identity.access import require, rows_for
from bus.journal.errors import RunUnknown
from bus.journal.log.children import states_logged
from bus.journal.log.commit import Commit, record
from bus.journal.log.events import undeclared
from bus.journal.outbox import announce
from bus.journal.records.control_requests import wake
from bus.journal.records.on_disconnect import count_anew
from bus.journal.records.steps import WORKFLOW
from bus.journal.records.task_wait import has_waits
from bus.journal.states.codes import WAKEABLE, Reason, RunStatus
from bus.journal.states.conditions import has_open_child
from bus.journal.states.lease import Lease
from bus.journal.states.owned import ended
from bus.messages.look_at_tasks import LookAtTasksMessage
from bus.messages.message import BusMessage
from bus.payloads import TERMINAL, ChildPayload, EndPayload, Payload, StatusPayload, WithdrawnPayload
from config.clock import stamp
from config.database.engine import WALL_MS
from config.database.tables import runs, steps
from config.identity.principal import Principal, Verb


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitResult:
    """The result of a transition without a lease."""

    tenant: str
    run_id: str
    thread_id: str
    status: str
    """The run's status afterwards."""
    fence: int
    events: tuple[Payload, ...] = ()
    """The events that were written; the caller publishes them to viewers."""
    wake: str | None = None
    """The run whose wake-up the caller publishes: this one, the thread's next one, or None."""
    control_id: str | None = None
    """Of the control that was requested, or done; None: there was nothing to do."""
    number: int | None = None
    """Of a steer: its number in the order in which the thread's messages arrived."""
    messages: tuple[BusMessage, ...] = ()
    """What else the caller publishes; a message that is lost delays what it asks for."""
    parent: CommitResult | None = None
    """What was written for the run's parent in the same transaction."""

    @property
    def is_end(self) -> bool:
        """Whether the run ended with it."""
        return bool(self.events) and isinstance(self.events[-1], EndPayload)


def lock_run(connection: Connection, run_id: str, *conditions: ColumnElement[bool]) -> Row[Any] | None:
    """Lock the run's row until the transaction ends and return it, or None where there is no such run.

    Besides its columns it has ``run_id``, and ``age_ms``: the milliseconds since its acceptance.
    """
    columns = runs, runs.c.id.label("run_id"), (WALL_MS - runs.c.created_ms).label("age_ms")
    query = select(*columns).where(runs.c.id == run_id, *conditions)
    return connection.execute(query.with_for_update()).first()


def lock_allowed_run(connection: Connection, principal: Principal, verb: Verb, run_id: str) -> Row[Any]:
    """Lock the run's row as ``lock_run`` does, and return it. A run that the principal does not see is not locked.

    Raises:
        RunUnknown: there is no such run, or the principal does not see it.
        FORBIDDEN: the principal may not do this with it.
    """
    row = lock_run(connection, run_id, rows_for(principal, Verb.SEE, runs))
    if row is None:
        raise RunUnknown(run_id=run_id)
    require(principal, verb, row, "this run")
    return row


def untouched(row: Row[Any]) -> CommitResult:
    """Return the result for a run that was not changed."""
    return CommitResult(tenant=row.tenant, run_id=row.id, thread_id=row.thread_id, status=row.status, fence=row.fence)


def write(connection: Connection, row: Row[Any], change: Commit, **values: Any) -> CommitResult:
    """Add ``change`` to the run and set columns of its row; the run has no owner afterwards."""
    fence, at = row.fence + 1, stamp()
    ranges = undeclared(connection, row.id, row.declared_to, row.reserved_to)
    events = [WithdrawnPayload(ranges=ranges), *change.events] if ranges else change.events
    numbered = tuple(payload.numbered(row.reserved_to + 1 + i, at) for i, payload in enumerate(events))
    last = row.reserved_to + len(numbered)
    ours = {"fence": fence, "owner": None, "lease_until": None, "reserved_to": last, "declared_to": last}
    connection.execute(update(runs).where(runs.c.id == row.id).values(**(ours | values)))
    wake = record(connection, row, fence, change, numbered)
    return replace(untouched(row), status=values.get("status", row.status), fence=fence, events=numbered, wake=wake)


def request_stop(connection: Connection, row: Row[Any]) -> None:
    """running -> running: the owner is asked to end the run; the caller adds the control."""
    connection.execute(update(runs).where(runs.c.id == row.id).values(stop_requested=True))


def requeue(connection: Connection, row: Row[Any], crashes: Sequence[dict[str, Any]] | None) -> CommitResult:
    """running -> queued: the owner is lost. ``crashes`` has the notes of all crashes; None if this one does not count.

    No event is written: the next owner declares missing numbers and writes ``status running`` with its attempt.
    """
    values = {"status": RunStatus.QUEUED, "reason": Reason.WORKER_LOST, "detail": "its worker was lost"}
    values |= {"owner": None, "lease_until": None} | counted(crashes)
    connection.execute(update(runs).where(runs.c.id == row.id).values(**values))
    announce(connection, row.id)
    return replace(untouched(row), status=RunStatus.QUEUED, wake=row.id)


def counted(crashes: Sequence[dict[str, Any]] | None) -> dict[str, Any]:
    """Return the columns that count one more crash; none where it does not count."""
    if crashes is None:
        return {}
    return {"crashes": runs.c.crashes + 1, "crashes_json": orjson.dumps(crashes).decode()}


def end(
    connection: Connection, row: Row[Any], change: Commit, crashes: Sequence[dict[str, Any]] | None = None
) -> CommitResult:
    """queued, waiting, or running with an expired lease -> the status of the end, which is the last event.

    A worker's maintenance delivers the end to observers.
    """
    last = change.events[-1]
    assert isinstance(last, EndPayload)
    values: dict[str, Any] = {"detail": None, "stop_requested": True, "observers_told": False, "ended_ms": WALL_MS}
    values["duration_ms"] = WALL_MS - runs.c.created_ms
    written = write(connection, row, change, **ended(last, change.error_code), **values, **counted(crashes))
    parent = note_parent(connection, row, written.status)
    return replace(written, messages=_for_tasks(connection, row), parent=parent)


def _for_tasks(connection: Connection, row: Row[Any]) -> tuple[BusMessage, ...]:
    """Return what has a worker revoke the tasks that an ended run waited for; only workers reach their brokers."""
    if not row.fence or not has_waits(connection, row.id):
        return ()
    ids = {name: getattr(row, name) for name in ("queue", "tenant", "trace_id", "correlation_id")}
    return (LookAtTasksMessage(run_id=row.id, **ids),)


def answer(connection: Connection, row: Row[Any], event: Payload, *, is_last: bool) -> CommitResult:
    """waiting -> waiting, or queued where ``is_last``: no other question of the run is open."""
    if not is_last:
        return write(connection, row, Commit(events=[event]))
    written = move(connection, row, RunStatus.QUEUED, Reason.ANSWERED, event)
    return replace(written, parent=note_parent(connection, row, written.status))


def move(
    connection: Connection, row: Row[Any], status: str, reason: Reason, *events: Payload, is_announced: bool = True
) -> CommitResult:
    """queued or waiting -> ``status``, with its event behind ``events``; a queued run is announced."""
    change = Commit(events=[*events, StatusPayload(status=status, reason=reason)])
    written = write(connection, row, change, status=status, reason=reason, detail=None)
    if status == RunStatus.QUEUED:
        count_anew(connection, row.id)
    if status != RunStatus.QUEUED or not is_announced:
        return written
    announce(connection, row.id)
    return replace(written, wake=row.id)


def note_parent(connection: Connection, child: Lease | Row[Any], status: str) -> CommitResult | None:
    """waiting -> waiting, or queued where ``child`` was the last open child of a parent that waits for its children.

    Part of the transaction that changes the child, which has locked the child's row; the parent's is locked behind it,
    and no transaction locks them the other way round. Nothing is written for a parent with an owner, or with one to
    come: its next owner reads the child's end by itself, and ``note_children`` writes the rest.
    """
    if child.parent_id is None:
        return None
    parent = lock_run(connection, child.parent_id)
    if parent is not None and parent.status == RunStatus.RUNNING and parent.kind == WORKFLOW and status in TERMINAL:
        wake(connection, parent.id, child.run_id)
    if parent is None or parent.status != RunStatus.WAITING:
        return None
    call_id = connection.execute(_CALL_OF, {"run_": child.run_id}).scalar()
    event = ChildPayload(child_run_id=child.run_id, agent=child.agent_id, status=status, call_id=call_id)
    if status in TERMINAL and _wakes(connection, parent):
        return move(connection, parent, RunStatus.QUEUED, Reason.CHILD, event)
    return write(connection, parent, Commit(events=[event]))


def _wakes(connection: Connection, parent: Row[Any]) -> bool:
    """Return whether the end of a child lets its waiting parent continue: that of any one, or of the last one."""
    if parent.kind == WORKFLOW:
        return parent.reason in WAKEABLE
    return bool(parent.reason == Reason.CHILD) and not has_open_child(connection, parent.id)


def note_children(connection: Connection, run_id: str) -> CommitResult | None:
    """waiting -> waiting: write which children began to ask a person, or were answered, while the run had an owner.

    Part of the transaction that releases the run, which has locked its row: a child that changes later is behind it.
    """
    children = connection.execute(_OPEN_CHILDREN, {"parent_": run_id}).all()
    if not children:
        return None
    logged = states_logged(connection, run_id)
    changed = [child for child in children if child.asks != (logged.get(child.run_id) == RunStatus.WAITING)]
    parent = lock_run(connection, run_id) if changed else None
    if parent is None or parent.status != RunStatus.WAITING:
        return None
    notes = [_child_event(child, RunStatus.WAITING if child.asks else RunStatus.QUEUED) for child in changed]
    return write(connection, parent, Commit(events=notes))


def _child_event(child: Row[Any], status: str) -> ChildPayload:
    return ChildPayload(child_run_id=child.run_id, agent=child.agent_id, status=status, call_id=child.call_id)


_OPEN_CHILDREN = (
    select(
        runs.c.id.label("run_id"),
        runs.c.agent_id,
        steps.c.call_id,
        and_(runs.c.status == RunStatus.WAITING, runs.c.reason == Reason.APPROVAL).label("asks"),
    )
    .join(steps, runs.c.parent_step == steps.c.id)
    .where(runs.c.parent_id == bindparam("parent_"), runs.c.ended_ms.is_(None))
    .order_by(runs.c.id)
)
_CALL_OF = select(steps.c.call_id).join(runs, runs.c.parent_step == steps.c.id).where(runs.c.id == bindparam("run_"))
