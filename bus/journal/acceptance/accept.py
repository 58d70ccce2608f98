"""Accepting a run: thread, user's message, run, first event and outbox row, in one commit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
from sqlalchemy import Boolean, Connection, bindparam, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from bus.identity.audit.entry import Action
from bus.identity.audit.recording import acting_with, record_state
from bus.identity.audit.recording import record as audit
from bus.identity.credentials.grants import Grant, PresentedGrant, use
from bus.journal.acceptance.run_limits import RunLimits, require_room
from bus.journal.errors import THREAD_OF_OTHER_AGENT, ThreadUnknown
from bus.journal.forks.continued import continue_from, repeatable
from bus.journal.forks.fork import fork_before
from bus.journal.idempotency import IdempotencyKey, remember, used_before
from bus.journal.log.commit import add_agent
from bus.journal.log.events import event_row
from bus.journal.outbox import announce
from bus.journal.paging import agents_beside
from bus.journal.records.definition_store import is_pinned, pin, remember_pinned
from bus.journal.records.originals import write_originals
from bus.journal.records.parent import Parent
from bus.journal.records.recorded_calls import RERUN, Origin
from bus.journal.records.steps import AGENT, TOOL, NewCall
from bus.journal.states.conditions import insert_run
from bus.journal.version import OF_KIND, WITH_ORIGIN
from bus.messages.run_agent import FIELDS, RunAgentMessage
from bus.payloads import StatusPayload
from bus.sealing import Original
from config.clock import epoch_ms, stamp
from config.database.engine import WALL_MS, Database
from config.database.tables import events, messages, runs, thread_agents, threads
from config.failpoints import failpoint
from config.identity.contexts import DeclaredContext
from config.identity.principal import LOCAL, Principal
from config.ids import is_made, new_id
from config.text.stored_texts import has_secret, stored_line
from config.tracing import current_correlation_id, current_trace_id, is_correlation_id, new_trace_id

THREAD = "thr"
"""The prefix of the ids of threads that no client named."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewRun:
    """What a client and the agent's definition give to a new run."""

    objective: str
    agent_id: str
    agent_name: str
    definition_digest: str
    definition_json: str
    """The agent's definition as JSON. It is stored by its digest, so the run keeps it when the file changes."""
    model: str
    observers: tuple[str, ...]
    thread_id: str | None = None
    """The client's own name for the thread; None makes a new thread."""
    new_thread_id: str | None = None
    """With which id it makes one: the version of the agent was chosen for it; None: with any."""
    principal: Principal = LOCAL
    """Whom the run, and a new thread, belong to."""
    is_private: bool = False
    """Whether only its principal and admins see the run and, from now on, its thread."""
    detached: bool = False
    queue: str | None = None
    """The queue that its agent names; None is the deployment's."""
    grant: PresentedGrant | None = None
    """With which the run is privileged."""
    call: NewCall | None = None
    """The one call of a run of kind ``tool``; None: the run is an agent's turn."""
    declared: DeclaredContext | None = None
    """What its entry point declares of it; None: nothing, as an earlier release."""
    metadata: Mapping[str, Any] | None = None
    idempotency: IdempotencyKey | None = None
    parent: Parent | None = None
    """Of a child run: whose it is."""
    origin: Origin | None = None
    """The run whose recorded steps it continues from."""
    originals: Sequence[Original] = field(default=(), repr=False)
    """What guardrails removed something from, to be sealed."""

    @property
    def kind(self) -> str:
        return AGENT if self.call is None else TOOL


@dataclass(frozen=True, kw_only=True, slots=True)
class Accepted:
    """A run that is committed to SQL."""

    run_id: str
    thread_id: str
    message: RunAgentMessage | None = None
    """The command that runs it; None when an earlier request with the same idempotency key made the run."""
    outbox_row: int | None = None
    """The outbox row that asks for its wake-up; None when no worker has to be notified."""

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
        TOO_MANY_RUNS: the principal or its tenant has as many open or queued runs as ``limits`` allow.
    """

    def committed() -> Accepted:
        with database.write() as connection:
            accepted = _accept(connection, new, record, limits or {}, is_audited=is_audited)
            failpoint("accept-before")
        return accepted

    accepted = _after_races(committed)
    if accepted.is_new:
        remember_pinned(database, new.definition_digest)
        remember_configuration(database, new.principal.tenant, new.agent_id, new.definition_digest)
    failpoint("accept")
    return accepted


def accept_on(
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
            return _accept(connection, new, record, limits or {}, is_audited=is_audited)

    return _after_races(written)


def _after_races(attempt: Callable[[], Accepted]) -> Accepted:
    """Return what the attempt returns; it may lose the race for a new thread, and then the one for the key."""
    for _ in range(2):
        with suppress(IntegrityError):
            return attempt()
    return attempt()


def _accept(connection: Connection, new: NewRun, record: Record, limits: RunLimits, *, is_audited: bool) -> Accepted:
    if new.idempotency is not None:
        earlier = used_before(connection, new.principal, new.idempotency)
        if earlier is not None:
            thread_id = connection.execute(select(runs.c.thread_id).where(runs.c.id == earlier)).scalar_one()
            return Accepted(run_id=earlier, thread_id=thread_id)
    require_room(connection, new.principal, limits)
    grant = new.grant.require(connection, new.principal, new.agent_id) if new.grant is not None else None
    pin(connection, new.definition_digest, new.agent_id, new.definition_json)
    if new.origin is not None and new.origin.kind == RERUN:
        source = repeatable(connection, new.principal, new.origin)
        new = replace(new, thread_id=fork_before(connection, new.principal, source.thread_id, source.turn))
    run = _insert(connection, new, grant)
    if new.origin is not None:
        continue_from(connection, new.origin, run["id"])
    if grant is not None:
        use(connection, grant, run["id"])
    message = RunAgentMessage(run_id=run["id"], **{name: run[name] for name in FIELDS})
    row = record(connection, run["id"])
    if new.idempotency is not None:
        remember(connection, new.principal, new.idempotency, run["id"])
    record_configuration(connection, new.principal, new.agent_id, new.definition_digest)
    if grant is not None:
        audit(connection, new.principal, Action.GRANT_USED, "grant", grant.id, run=run["id"], agent=new.agent_id)
    if is_audited:
        facts = {name: run[name] for name in ("kind", "trace_id", "correlation_id", "definition_digest")}
        audit(connection, new.principal, Action.RUN_STARTED, "run", run["id"], agent=new.agent_id, **facts)
    return Accepted(run_id=run["id"], thread_id=run["thread_id"], message=message, outbox_row=row)


def insert_child(connection: Connection, new: NewRun) -> None:
    """Insert a child run with a thread of its own; its caller checks the limits and announces it."""
    _insert(connection, new, None)


def _insert(connection: Connection, new: NewRun, grant: Grant | None) -> dict[str, Any]:
    """Insert the run, the user's message and event 1, and return the run's row."""
    now_ms, title = epoch_ms(), stored_line(new.objective)
    run = _run_row(new, grant, title, *_take_number(connection, new, title))
    insert_run(connection, run)
    write_originals(connection, run["id"], new.originals)
    connection.execute(_INSERT_MESSAGE, _message_row(new, run, now_ms))
    connection.execute(_INSERT_EVENT, event_row(_first_event(new, run, grant, now_ms), run["id"], run["thread_id"], 0))
    return run


def _run_row(
    new: NewRun, grant: Grant | None, title: str, thread_key: int, thread_id: str, turn: int, is_private: bool
) -> dict[str, Any]:
    credential, credential_id = acting_with.get()
    return {
        "id": new_id("run"),
        "thread_key": thread_key,
        "thread_id": thread_id,
        "turn": turn,
        "tenant": new.principal.tenant,
        "principal": new.principal.id,
        "roles_json": _names(new.principal.roles),
        "credential": credential,
        "credential_id": credential_id[:64] or None,
        "agents_json": None if new.principal.agents is None else _names(new.principal.agents) or "[]",
        "grant_id": grant.id if grant is not None else None,
        "trace_id": current_trace_id() or new_trace_id(),
        "context_json": new.declared.to_json() if new.declared is not None else None,
        "private": is_private,
        "kind": new.kind,
        "agent_id": new.agent_id,
        "agent_name": new.agent_name,
        "definition_digest": new.definition_digest,
        "model": new.model,
        "title": title,
        "detached": new.detached,
        "queue": new.queue,
        "observers_json": orjson.dumps(new.observers).decode(),
        **_columns_of(new.metadata or {}),
        **(new.parent.columns() if new.parent is not None else {}),
        "journal": OF_KIND[new.kind] if new.origin is None else WITH_ORIGIN,
        "origin_id": new.origin.run_id if new.origin is not None else None,
        "origin_json": new.origin.to_json() if new.origin is not None else None,
    }


def _message_row(new: NewRun, run: Mapping[str, Any], now_ms: int) -> dict[str, Any]:
    fields = {} if new.call is None else new.call.message_fields()
    return {
        "thread_key": run["thread_key"],
        "number": run["turn"],
        "turn": run["turn"],
        "run_id": run["id"],
        "id": new_id("msg"),
        "role": "user",
        "data_json": orjson.dumps({"content": new.objective, **fields}).decode(),
        "partial": False,
        "created_ms": now_ms,
    }


def _first_event(new: NewRun, run: Mapping[str, Any], grant: Grant | None, now_ms: int) -> StatusPayload:
    context = None if new.declared is None else new.declared.golden(new.principal.id, run["trace_id"]).as_json()
    return StatusPayload(
        seq=1,
        at=stamp(now_ms),
        status="queued",
        agent=new.agent_id,
        privilege=_privilege(grant) if grant is not None else None,
        context=context,
        trace_id=run["trace_id"],
        correlation_id=run["correlation_id"] or run["trace_id"],
    )


def _privilege(grant: Grant) -> dict[str, str]:
    """Return what the run's log says of its grant."""
    facts = {"grant_id": grant.id, "by": grant.issued_by, "reason": grant.reason}
    return facts | {"expires_at": stamp(grant.expires_ms)}


def _names(roles: Collection[str]) -> str | None:
    return orjson.dumps(sorted(roles)).decode() if roles else None


def _columns_of(metadata: Mapping[str, Any]) -> dict[str, str | None]:
    """Return a run's metadata, and its correlation id: the one in it (anything may have that name there).

    A run that another run, or a request without one, started has the one of these.
    """
    candidate = metadata.get("correlation_id", current_correlation_id())
    correlation_id = candidate if is_correlation_id(candidate) and not has_secret(candidate) else None
    metadata_json = orjson.dumps(dict(metadata)).decode() if metadata else None
    return {"metadata_json": metadata_json, "correlation_id": correlation_id}


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
        values |= {"parent_id": new.parent.run_id, "labels_json": _names(new.parent.labels)}
    key = connection.execute(_NEW_THREAD, values).scalar_one()
    return key, thread_id, 1, new.is_private


# --- with which definition a tenant's runs are accepted ---------------------------------------------

_recorded: dict[tuple[str, str, str], str] = {}
"""Database, tenant and agent -> the digest that this process accepted its last run with."""


def record_configuration(connection: Connection, principal: Principal, agent_id: str, digest: str) -> None:
    """Record the definition, in the transaction that accepts a run, if it is not the last one that was recorded.

    The principal is the first that started a run with it; who edited the file is not known here.
    """
    if _recorded.get((str(connection.engine.url), principal.tenant, agent_id)) == digest:
        return
    record_state(connection, principal, Action.AGENT_CONFIGURED, "agent", agent_id, {"definition": digest})


def is_prepared(database: Database, new: NewRun) -> bool:
    """Return whether a run with this definition needs nothing stored but its own rows."""
    key = str(database.engine.url), new.principal.tenant, new.agent_id
    return is_pinned(database, new.definition_digest) and _recorded.get(key) == new.definition_digest


def remember_configuration(database: Database, tenant: str, agent_id: str, digest: str) -> None:
    """Remember what is recorded; to be called after the transaction was committed."""
    _recorded[str(database.engine.url), tenant, agent_id] = digest
