"""Accepting a run: thread, user's message, run, first event and outbox row, in one commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Boolean, Connection, bindparam, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from bus.identity.audit.entry import Action
from bus.identity.audit.recording import record as audit
from bus.identity.audit.recording import record_state
from bus.identity.credentials.grants import Grant, use
from bus.journal.acceptance.new_run import NewRun, first_event, message_row, names_json, rights_of, run_row
from bus.journal.acceptance.run_limits import RunLimits, require_room
from bus.journal.errors import THREAD_OF_OTHER_AGENT, ThreadUnknown
from bus.journal.forks.continued import continue_from, repeatable
from bus.journal.forks.fork import fork_before
from bus.journal.idempotency import remember, used_before
from bus.journal.log.commit import add_agent
from bus.journal.log.events import event_row
from bus.journal.mailbox.busy import ITS_OWN_RUN, Delivery, SentMessage, deliver, delivery_before
from bus.journal.outbox import announce
from bus.journal.paging import agents_beside
from bus.journal.records.definition_store import is_pinned, pin, remember_pinned
from bus.journal.records.on_disconnect import add_policy, require_policy
from bus.journal.records.originals import write_originals
from bus.journal.records.recorded_calls import RERUN, Origin
from bus.journal.records.steps import AGENT, WORKFLOW
from bus.journal.records.threads import label_thread
from bus.journal.states.conditions import insert_run
from bus.journal.unowned.turns import put_first
from bus.messages.run_agent import FIELDS, RunAgentMessage
from config.clock import epoch_ms
from config.database.engine import WALL_MS, Database
from config.database.tables import events, messages, runs, thread_agents, threads
from config.failpoints import failpoint
from config.ids import is_made, new_id
from config.text.stored_texts import stored_line

THREAD = "thr"
"""The prefix of the ids of threads that no client named."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Accepted:
    """A run that is committed to SQL."""

    run_id: str
    thread_id: str
    message: RunAgentMessage | None = None
    """The command that runs it; None when an earlier request with the same idempotency key made the run."""
    outbox_row: int | None = None
    """The outbox row that asks for its wake-up; None when no worker has to be notified."""
    delivery: Delivery = ITS_OWN_RUN
    """What became of the message where its thread was busy."""

    @property
    def is_new(self) -> bool:
        """Whether this call made the run."""
        return self.message is not None


Record = Callable[[Connection, str], int | None]
"""Writes, in the commit that accepts a run, what publishes its message; see ``bus.routes.Transport.record``."""


def accept(
    database: Database,
    new: NewRun,
    record: Record = announce,
    limits: RunLimits | None = None,
    *,
    is_audited: bool = False,
) -> Accepted:
    """Commit a new run and return it; if anything is raised, nothing of it is in SQL.

    ``is_audited``: its start is an entry of the audit log.

    Raises:
        IDEMPOTENCY_CONFLICT: the key was used with another body.
        THREAD_OF_OTHER_AGENT: the credential of the principal is not for an agent of the thread with this name.
        GRANT_REFUSED: the grant is not for this start, or cannot be used any more.
        ThreadUnknown: the id is one that Callboard made, and the principal, or its credential, has no such thread.
        TOO_MANY_RUNS: the principal or its tenant has as many open or queued runs as ``limits`` allow, and the
            message needs a run of its own.
        THREAD_BUSY: the thread has an open run, and the message is to be rejected then.
        BadRequest: there is no such policy for a run without viewers.
    """

    def committed() -> Accepted:
        with database.write() as connection:
            accepted = _accept(database, connection, new, record, limits or {}, is_audited=is_audited)
            failpoint("accept-before")
        return accepted

    accepted = _after_races(committed)
    if accepted.is_new:
        remember_pinned(database, new.definition_digest)
        remember_configuration(database, new.principal.tenant, new.agent_id, new.definition_digest)
    failpoint("accept")
    return accepted


def accept_on(
    database: Database,
    connection: Connection,
    new: NewRun,
    record: Record = announce,
    limits: RunLimits | None = None,
    *,
    is_audited: bool = False,
) -> Accepted:
    """Write a new run into a caller's transaction; it exists once that is committed.

    A savepoint keeps what the caller did if this fails. Nothing is remembered of it, since the caller may roll back.

    Raises:
        IDEMPOTENCY_CONFLICT, THREAD_OF_OTHER_AGENT, GRANT_REFUSED, ThreadUnknown, TOO_MANY_RUNS: see ``accept``.
    """

    def written() -> Accepted:
        with connection.begin_nested():
            return _accept(database, connection, new, record, limits or {}, is_audited=is_audited)

    return _after_races(written)


def _after_races(attempt: Callable[[], Accepted]) -> Accepted:
    """Return what the attempt returns; it may lose the race for a new thread, and then the one for the key."""
    for _ in range(2):
        with suppress(IntegrityError):
            return attempt()
    return attempt()


def _accept(
    database: Database,
    connection: Connection,
    new: NewRun,
    record: Record,
    limits: RunLimits,
    *,
    is_audited: bool,
) -> Accepted:
    if new.idempotency is not None:
        earlier = used_before(connection, new.principal, new.idempotency)
        if earlier is not None:
            thread_id = connection.execute(select(runs.c.thread_id).where(runs.c.id == earlier.run_id)).scalar_one()
            return Accepted(run_id=earlier.run_id, thread_id=thread_id, delivery=delivery_before(earlier))
    delivery = _deliver(database, connection, new)
    if delivery.run_id is not None:
        if new.idempotency is not None:
            facts = {"delivered": delivery.delivered, "control_id": delivery.control_id}
            remember(connection, new.principal, new.idempotency, delivery.run_id, **facts)
        return Accepted(run_id=delivery.run_id, thread_id=str(new.thread_id), delivery=delivery)
    require_room(connection, new.principal, limits, ending=int(delivery.is_stopping))
    grant = new.grant.require(connection, new.principal, new.agent_id) if new.grant is not None else None
    pin(connection, new.definition_digest, new.agent_id, new.definition_json)
    if new.origin is not None and new.origin.kind == RERUN:
        new = replace(new, thread_id=_fork(connection, new, new.origin))
    run = _insert(connection, new, grant)
    add_policy(connection, run["id"], new.on_disconnect)
    if new.origin is not None:
        continue_from(connection, new.origin, run["id"], new.redo)
    if delivery.queued is not None:
        put_first(connection, run["thread_key"], run["id"], delivery.queued)
    if grant is not None:
        use(connection, grant, run["id"])
    message = RunAgentMessage(run_id=run["id"], **{name: run[name] for name in FIELDS})
    row = record(connection, run["id"])
    if new.idempotency is not None:
        remember(connection, new.principal, new.idempotency, run["id"])
    _audit(connection, new, grant, run, is_audited=is_audited)
    ids = {"run_id": run["id"], "thread_id": run["thread_id"]}
    return Accepted(**ids, message=message, outbox_row=row, delivery=delivery)


def _fork(connection: Connection, new: NewRun, origin: Origin) -> str:
    """Make the thread of a rerun, with what was said before the turn that it repeats, and return its id."""
    source = repeatable(connection, new.principal, origin)
    place = source.thread_id, source.turn
    return fork_before(connection, new.principal, *place, source.agent_id, new.new_thread_id)


def _audit(
    connection: Connection, new: NewRun, grant: Grant | None, run: Mapping[str, Any], *, is_audited: bool
) -> None:
    """Add what the audit log has of a run's start: its definition where that is new, its grant, and the start."""
    record_configuration(connection, new)
    if grant is not None:
        audit(connection, new.principal, Action.GRANT_USED, "grant", grant.id, run=run["id"], agent=new.agent_id)
    if is_audited:
        facts = {name: run[name] for name in ("kind", "trace_id", "correlation_id", "definition_digest")}
        audit(connection, new.principal, Action.RUN_STARTED, "run", run["id"], agent=new.agent_id, **facts)


def _deliver(database: Database, connection: Connection, new: NewRun) -> Delivery:
    """Do with the open run of the message's thread what the message asks for, once its other policy is valid."""
    require_policy(new.on_disconnect)
    if new.thread_id is None:
        return ITS_OWN_RUN
    message = SentMessage(
        principal=new.principal,
        thread_id=new.thread_id,
        agent_id=new.agent_id,
        definition_digest=new.definition_digest,
        content=new.objective,
        if_busy=new.if_busy or new.agent_if_busy,
        may_withdraw=new.if_busy != "reject",
        may_join=new.kind == AGENT and new.grant is None,
        rights=rights_of(new),
        originals=tuple(new.originals),
    )
    return deliver(database, connection, message)


def insert_child(connection: Connection, new: NewRun) -> None:
    """Insert a child run with a thread of its own; its caller checks the limits and announces it."""
    run = _insert(connection, new, None)
    if new.origin is not None:
        continue_from(connection, new.origin, run["id"], new.redo)


def _insert(connection: Connection, new: NewRun, grant: Grant | None) -> dict[str, Any]:
    """Insert the run, the user's message and event 1, and return the run's row."""
    now_ms, title = epoch_ms(), stored_line(new.title)
    run = run_row(new, grant, title, *_take_number(connection, new, title))
    insert_run(connection, run)
    if new.labels:
        label_thread(connection, run["thread_key"], new.labels)
    write_originals(connection, run["id"], new.originals)
    connection.execute(_INSERT_MESSAGE, message_row(new, run, now_ms))
    connection.execute(_INSERT_EVENT, event_row(first_event(new, run, grant, now_ms), run["id"], run["thread_id"], 0))
    return run


_INSERT_MESSAGE, _INSERT_EVENT = insert(messages).inline(), insert(events).inline()
_NEXT_NUMBER = (
    update(threads)
    .where(
        threads.c.tenant == bindparam("tenant_"),
        threads.c.principal == bindparam("principal_"),
        threads.c.id == bindparam("id_"),
    )
    .values(
        next_message=threads.c.next_message + 1,
        updated_ms=WALL_MS,
        private=or_(threads.c.private, bindparam("private_", type_=Boolean)),
    )
    .returning(threads.c.key, threads.c.next_message, threads.c.private, threads.c.agent_id)
)
_NEW_THREAD = insert(threads).values(created_ms=WALL_MS, updated_ms=WALL_MS).returning(threads.c.key)


def _take_number(connection: Connection, new: NewRun, title: str) -> tuple[int, str, int, bool]:
    """Return the thread's key and id, the number of the message that is about to be added, and whether it is private.

    A private thread stays so, since later runs read its messages.

    Raises:
        THREAD_OF_OTHER_AGENT: the credential of the principal is not for an agent of the thread with this name.
        ThreadUnknown: the id is one that Callboard made, and the principal, or its credential, has no such thread.
    """
    if new.thread_id is not None:
        its = {"tenant_": new.principal.tenant, "principal_": new.principal.id, "id_": new.thread_id}
        row = connection.execute(_NEXT_NUMBER, its | {"private_": new.is_private}).first()
        if row is not None:
            agents = new.principal.agents
            if agents is not None:
                others = agents_beside(agents).where(thread_agents.c.thread_key == row.key).limit(1)
                if row.agent_id not in agents or connection.execute(others).first() is not None:
                    # a name of the client's own is taken, which no answer can hide; an id of ours need not exist
                    is_ours = is_made(THREAD, new.thread_id)
                    raise (ThreadUnknown if is_ours else THREAD_OF_OTHER_AGENT)(thread_id=new.thread_id)
            if row.agent_id != new.agent_id:
                add_agent(connection, row.key, new.agent_id)
            return row.key, new.thread_id, row.next_message - 1, row.private
        if is_made(THREAD, new.thread_id):  # removed, or another's: the run would lack its messages
            raise ThreadUnknown(thread_id=new.thread_id)
    thread_id = new.thread_id or new.new_thread_id or new_id(THREAD)
    values = {
        "id": thread_id,
        "tenant": new.principal.tenant,
        "principal": new.principal.id,
        "private": new.is_private,
        "agent_id": new.agent_id,
        "title": title,
        "next_message": 2,
    }
    if new.parent is not None:
        values |= {"parent_id": new.parent.run_id, "labels_json": names_json(new.parent.labels)}
    key = connection.execute(_NEW_THREAD, values).scalar_one()
    return key, thread_id, 1, new.is_private


# --- with which definition a tenant's runs are accepted ---------------------------------------------

_recorded: dict[tuple[str, str, str], str] = {}
"""Database, tenant and agent -> the digest that this process accepted its last run with."""


def record_configuration(connection: Connection, new: NewRun) -> None:
    """Record the definition, in the transaction that accepts a run, if it is not the last one that was recorded.

    The principal is the first that started a run with it; who edited the file is not known here.
    """
    digest, target = new.definition_digest, WORKFLOW if new.kind == WORKFLOW else AGENT
    if _recorded.get((str(connection.engine.url), new.principal.tenant, new.agent_id)) == digest:
        return
    record_state(connection, new.principal, Action.AGENT_CONFIGURED, target, new.agent_id, {"definition": digest})


def is_prepared(database: Database, new: NewRun) -> bool:
    """Return whether a run with this definition needs nothing stored but its own rows."""
    key = str(database.engine.url), new.principal.tenant, new.agent_id
    return is_pinned(database, new.definition_digest) and _recorded.get(key) == new.definition_digest


def remember_configuration(database: Database, tenant: str, agent_id: str, digest: str) -> None:
    """Remember what is recorded; to be called after the transaction was committed."""
    _recorded[str(database.engine.url), tenant, agent_id] = digest
