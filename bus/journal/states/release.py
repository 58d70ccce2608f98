"""The release of a run by its owner: it is queued again, or waits for a person or for compatible code."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import orjson
from sqlalchemy import Boolean, Connection, and_, bindparam, case, insert, not_, or_, select, update

from bus.journal.approvals import Question, ask
from bus.journal.outbox import announce
from bus.journal.records.control_requests import SIGNAL, STOP, WAKE, add_control
from bus.journal.states.codes import CODE, Reason
from bus.journal.states.conditions import has_open_child
from bus.journal.states.owned import COMMIT, Owned
from config.database.tables import controls, runs, steps, threads, timers
from config.ids import new_id
from config.redaction import redact


@dataclass(frozen=True, kw_only=True, slots=True)
class Handover:
    """The agent that continues a run, as the run's row names it from then on."""

    agent_id: str
    agent_name: str
    definition_digest: str
    definition_json: str = field(repr=False)
    """Stored by its digest, as that of an accepted run."""
    model: str
    observers: tuple[str, ...]
    queue: str | None = None
    private: bool = False
    """Whether only the run's principal and admins see the run and its thread from now on."""
    handed_from: tuple[str, ...] = ()
    """The agents that worked on the run so far, in order; the last one hands over."""

    def columns(self) -> dict[str, str | None]:
        """Return what the run's row has of it, besides ``private``."""
        names = ("agent_id", "agent_name", "definition_digest", "model", "queue")
        lists = {"observers_json": self.observers, "handed_from_json": self.handed_from}
        return {name: getattr(self, name) for name in names} | {
            name: orjson.dumps(value).decode() for name, value in lists.items()
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    """The state in which an owner leaves its run. The same commit seals or withdraws every event of the owner."""

    status: Literal["queued", "waiting"]
    reason: Reason
    detail: str | None = None
    """What the run waits for, as a sentence."""
    questions: tuple[Question, ...] = ()
    """What a person is asked; each has its own expiry."""
    ends_ms: int | None = None
    """When a run that waits for code, or is paused, expires, in ms since 1970 by the database's clock."""
    handover: Handover | None = None
    """The agent that continues the run; None: the same one."""
    seen_signals: tuple[int, ...] | None = None
    """Of a workflow: the signals, by the ids of their controls, that it has and no node waits for yet."""
    is_undoing: bool = False
    """Of a workflow: whether it waits in spite of a stop and of signals, since what it did is being undone."""


DRAINED = Release(status="queued", reason=Reason.DRAIN)
"""The owner's process ends soon."""
HANDED_OVER = Release(status="queued", reason=Reason.HANDOVER)
"""Another agent continues the run, on a worker that has it."""
PAUSED = Release(status="waiting", reason=Reason.PAUSED, detail="A client paused it; resume it to continue.")
"""A client requested it; the owner adds until when the run may stay so."""


def release(connection: Connection, owned: Owned, change: Release, last: int, work_ms: int | None) -> str | None:
    """running -> queued or waiting: the run has no owner, and ``last`` is its last number.

    Guard: it is still owned as ``owned`` says; returns its new status, or None where it was not. A run that was asked
    to stop meanwhile is queued in any case, so that its next owner ends it, and so is one whose children have all
    ended. Questions, their timers and the wake-up are written with it, and the agent that continues the run. A
    privilege grant is for one agent, and does not hold for another.
    """
    detail = redact(change.detail) if change.detail is not None else None
    values = {"reason": change.reason, "detail": detail, "reserved_to": last, "declared_to": last}
    values |= {"new_status": change.status, "lease_until": None, "owner": None}
    values |= {"work_ms_": work_ms, "is_undoing_": change.is_undoing}
    if change.handover is None:
        status = connection.execute(_RELEASE, owned | values).scalar()
    else:
        values |= change.handover.columns() | {"private_": change.handover.private}
        status = connection.execute(_HAND_OVER, owned | values).scalar()
    if status is None:
        return None
    run_id = owned["id_"]
    if status == "waiting" and change.reason is Reason.CHILD and not has_open_child(connection, run_id):
        # A statement of its own: it sees each child that ended before this transaction got the lock of the run's row.
        connection.execute(_QUEUED, {"id_": run_id})
        status = "queued"
    if status == "waiting" and change.seen_signals is not None and _has_news(connection, run_id, change):
        connection.execute(_QUEUED, {"id_": run_id})
        status = "queued"
    if status == "waiting" and change.reason is Reason.APPROVAL:
        status = _yield_thread(connection, run_id)
    ask(connection, run_id, change.questions)
    if change.ends_ms is not None and status == "waiting":
        timer = {"id": new_id("tmr"), "run_id": run_id, "kind": CODE, "due_ms": change.ends_ms}
        connection.execute(insert(timers).values(**timer))
    if status == "queued":
        announce(connection, run_id)
    return str(status)


def _has_news(connection: Connection, run_id: str, change: Release) -> bool:
    """Return whether an answer or a signal came, or a child run ended, since the owner looked; its row is locked."""
    kinds = (WAKE,) if change.is_undoing else (SIGNAL, WAKE)
    news = connection.execute(_NEWS, {"run_": run_id, "kinds_": kinds}).scalars()
    return any(control not in (change.seen_signals or ()) for control in news) or (
        connection.execute(_ENDED_CHILD, {"run_": run_id}).first() is not None
    )


_NEWS = (
    select(controls.c.id)
    .where(controls.c.run_id == bindparam("run_"), controls.c.taken_ms.is_(None))
    .where(controls.c.kind.in_(bindparam("kinds_", expanding=True)))
)
_ENDED_CHILD = (
    select(runs.c.id)
    .join(steps, steps.c.id == runs.c.parent_step)
    .where(runs.c.parent_id == bindparam("run_"), runs.c.ended_ms.is_not(None), steps.c.ended_ms.is_(None))
    .limit(1)
)


def _yield_thread(connection: Connection, run_id: str) -> str:
    """Let the thread's next message begin, where the run waits for a person aside; return the run's status.

    A question that is withdrawn for the next message stops its run where such a message waits already.
    """
    row = connection.execute(_WAITING, {"id_": run_id}).one()
    if row.on_waiting is None:
        return "waiting"
    if row.on_waiting == "aside":
        connection.execute(_LEAVE_THREAD, {"key_": row.thread_key, "run_": run_id})
    following = connection.execute(_FOLLOWING, {"key_": row.thread_key, "turn_": row.turn}).first()
    if following is None:
        return "waiting"
    if row.on_waiting == "aside":
        announce(connection, following.id)
        return "waiting"
    add_control(connection, run_id, STOP, following.principal)
    connection.execute(_STOPPED, {"id_": run_id})
    return "queued"


_WAITING = select(runs.c.on_waiting, runs.c.thread_key, runs.c.turn).where(runs.c.id == bindparam("id_"))
_FOLLOWING = (
    select(runs.c.id, runs.c.principal)
    .where(runs.c.thread_key == bindparam("key_"), runs.c.turn > bindparam("turn_"), runs.c.status == "queued")
    .where(runs.c.ended_ms.is_(None))
    .order_by(runs.c.turn)
    .limit(1)
)
_LEAVE_THREAD = (
    update(threads)
    .where(threads.c.key == bindparam("key_"), threads.c.open_run == bindparam("run_"))
    .values(open_run=None)
)
_STOPPED = update(runs).where(runs.c.id == bindparam("id_")).values(status="queued", stop_requested=True)
_QUEUED = update(runs).where(runs.c.id == bindparam("id_")).values(status="queued")


_RELEASE = COMMIT.values(
    status=case(
        (and_(runs.c.stop_requested, not_(bindparam("is_undoing_", type_=Boolean))), "queued"),
        else_=bindparam("new_status"),
    ),
    work_ms=bindparam("work_ms_"),
).returning(runs.c.status)
_HAND_OVER = _RELEASE.values(private=or_(runs.c.private, bindparam("private_", type_=Boolean)))
