"""What becomes of a message for a thread that has an open run: it waits its turn, or goes to that run, or ends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Row, bindparam, select

from bus.identity.access import require
from bus.journal.controls import STEER, STOP
from bus.journal.errors import CONTROL_REFUSED, THREAD_BUSY, TOO_MANY_CONTROLS
from bus.journal.mailbox.control import control_locked, record_change, record_control
from bus.journal.mailbox.queue import add_to_message, queued_messages
from bus.journal.records.control_requests import NEXT
from bus.journal.records.originals import write_originals
from bus.journal.records.steps import AGENT
from bus.journal.states.conditions import holds_thread
from bus.journal.unowned.transitions import CommitResult, lock_run, untouched
from bus.payloads import TERMINAL
from bus.sealing import Original
from config.database.engine import Database
from config.database.tables import runs, threads
from config.errors import CallboardError
from config.identity.principal import Principal, Verb

IfBusy = Literal["enqueue", "reject", "interrupt", "rollback", "merge", "steer"]
TRIES = 5
"""Times that the thread's open run is read again because it ended meanwhile."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SentMessage:
    """A message for a thread, as far as it matters where it goes."""

    principal: Principal
    thread_id: str
    agent_id: str
    definition_digest: str
    """Of the version of the agent whose guardrails have passed the text."""
    content: str
    if_busy: IfBusy
    may_withdraw: bool
    """Whether it takes back a question with ``on_waiting: withdraw``: not where the request itself says ``reject``."""
    may_join: bool
    """Whether it may become part of another run: it is an agent's turn, without a grant of its own."""
    rights: Mapping[str, str | None]
    """The columns of a run of its own, with which it would act."""
    originals: tuple[Original, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Delivery:
    """What became of a message before a run was made of it."""

    run_id: str | None = None
    """The run that takes it; None: it becomes a run of its own."""
    delivered: Literal["run", "merged", "steered"] = "run"
    control_id: str | None = None
    """Of the steer."""
    queued: tuple[str, ...] | None = None
    """The ids of the queued runs that it goes before; None: it goes behind them."""
    stopped: CommitResult | None = None
    """Of the run that was stopped for it; without events that run's owner still has to."""

    @property
    def is_stopping(self) -> bool:
        """Whether the run that is stopped for the message still has an owner, which ends it."""
        return self.stopped is not None and not self.stopped.is_end


ITS_OWN_RUN = Delivery()


def delivery_before(earlier: Row[Any]) -> Delivery:
    """Return what became of the message of an earlier request with the same idempotency key."""
    if earlier.delivered is None:
        return ITS_OWN_RUN
    return Delivery(run_id=earlier.run_id, delivered=earlier.delivered, control_id=earlier.control_id)


def deliver(database: Database, connection: Connection, message: SentMessage) -> Delivery:
    """Do with the thread's open run what the message's policy says; runs are locked before their thread.

    Raises:
        THREAD_BUSY: the policy is ``reject``.
        FORBIDDEN: the principal may not stop the open run.
    """
    head = _lock_head(connection, message)
    if head is None:
        return ITS_OWN_RUN
    if message.may_withdraw and head.on_waiting == "withdraw" and (head.status, head.reason) == ("waiting", "approval"):
        return Delivery(stopped=_stop(database, connection, message, head))
    match message.if_busy:
        case "reject":
            raise THREAD_BUSY(thread_id=message.thread_id, run_id=head.id, status=head.status)
        case "interrupt" | "rollback":
            waiting = queued_messages(connection, head.thread_key)  # not the one that ends now: it was sent before
            queued = tuple(row.id for row in waiting if row.id != head.id)
            data = NEXT | ({"rollback": True} if message.if_busy == "rollback" else {})
            return Delivery(queued=queued, stopped=_stop(database, connection, message, head, data))
        case "merge" if message.may_join:
            return _merge(connection, message, head)
        case "steer" if message.may_join and head.agent_id == message.agent_id:
            return _steer(database, connection, message, head)
        case _:
            return ITS_OWN_RUN


def _lock_head(connection: Connection, message: SentMessage) -> Row[Any] | None:
    """Lock and return the run that holds the thread; None where the thread is idle."""
    its = {"tenant_": message.principal.tenant, "principal_": message.principal.id, "id_": message.thread_id}
    for _ in range(TRIES):
        run_id = connection.execute(_HEAD, its).scalar()
        if run_id is None:
            return None
        if message.if_busy == "enqueue" and connection.execute(_WITHDRAWS, {"run_": run_id}).first() is None:
            return None  # it waits its turn, whatever becomes of that run
        row = lock_run(connection, run_id)
        if row is not None and row.status not in TERMINAL:
            return row
    return None


def _stop(
    database: Database,
    connection: Connection,
    message: SentMessage,
    head: Row[Any],
    data: dict[str, Any] = NEXT,
) -> CommitResult:
    require(message.principal, Verb.CONTROL, head, "this run")
    written = control_locked(database, connection, head, STOP, message.principal.id, data)
    if written.control_id is not None:
        record_control(connection, message.principal, head, STOP, message.principal.id)
    return written


def _merge(connection: Connection, message: SentMessage, head: Row[Any]) -> Delivery:
    """Add the text to the newest message that waits, where that is for the same agent, with the same rights."""
    queued = queued_messages(connection, head.thread_key)
    last = queued[-1] if queued else None
    if last is None or (last.agent_id, last.kind, last.grant_id) != (message.agent_id, AGENT, None):
        return ITS_OWN_RUN
    if last.definition_digest != message.definition_digest:
        return ITS_OWN_RUN  # the guardrails of that run's version have not seen the text
    if any(getattr(last, column) != value for column, value in message.rights.items()):
        return ITS_OWN_RUN  # its text would act with roles, or reach agents, that its sender has not
    run_id = last.id
    row = lock_run(connection, run_id)
    assert row is not None, "it is locked"
    if not add_to_message(connection, row, message.content):
        return ITS_OWN_RUN
    write_originals(connection, run_id, message.originals)
    record_change(connection, message.principal, row, "merge")
    return Delivery(run_id=run_id, delivered="merged")


def _steer(database: Database, connection: Connection, message: SentMessage, head: Row[Any]) -> Delivery:
    """Give the text to the open run, whose owner checks it where the run has another version of the agent.

    Where the run cannot take it, the message waits its turn.
    """
    require(message.principal, Verb.CONTROL, head, "this run")
    data = {"content": message.content, "checked_by": message.definition_digest}
    try:
        written = control_locked(database, connection, head, STEER, message.principal.id, data)
    except CallboardError as error:
        if error.code not in (CONTROL_REFUSED.code, TOO_MANY_CONTROLS.code):
            raise
        return ITS_OWN_RUN
    write_originals(connection, head.id, message.originals)
    record_control(connection, message.principal, head, STEER, message.principal.id)
    stopped = written if written.events else untouched(head)
    return Delivery(run_id=head.id, delivered="steered", control_id=written.control_id, stopped=stopped)


_THREAD_KEY = select(threads.c.key).where(
    threads.c.tenant == bindparam("tenant_"),
    threads.c.principal == bindparam("principal_"),
    threads.c.id == bindparam("id_"),
)
# Not a join: PostgreSQL would read and sort all that waits in the thread to find the first one.
_HEAD = (
    select(runs.c.id)
    .where(runs.c.thread_key == _THREAD_KEY.scalar_subquery(), holds_thread(runs))
    .order_by(runs.c.turn)
    .limit(1)
)
_WITHDRAWS = select(runs.c.id).where(runs.c.id == bindparam("run_"), runs.c.on_waiting == "withdraw")
