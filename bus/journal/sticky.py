"""Sticky approvals: a person approves a tool's later calls too, for one thread or for all of an agent, until a time.

One is granted together with the approval of a call, where the call's tool offers it. It is bound to the tenant, the
principal and the agent of that run, to its thread where the scope says so, and to the versions of the tool, of the
policy and of the agent's behaviour. It ends at its time, or when it is revoked.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, bindparam, delete, insert, or_, select, update

from bus.identity.access import rows_for
from bus.identity.audit.entry import Action
from bus.identity.audit.recording import record
from bus.journal.errors import STICKY_UNKNOWN, StickyOver
from bus.journal.paging import newest_first, present
from config.clock import stamp
from config.database.engine import WALL_MS, Database, wall_ms
from config.database.tables import agent_versions, sticky_approvals
from config.effects import Scope
from config.identity.principal import Principal, Verb
from config.ids import new_id

KEPT_MS = 30 * 86_400_000
"""Milliseconds that one is listed after its end."""
WORDS = {Scope.THREAD: "for this thread", Scope.TOOL: "for this tool"}


@dataclass(frozen=True, kw_only=True, slots=True)
class StickyApproval:
    """One that is valid now."""

    id: str
    scope: str
    thread_id: str
    name: str
    """The tool's, as it was called when its call was approved."""
    tool_digest: str
    """Of what was approved of the tool, its identity included."""
    policy_version: str | None
    approved_by: str
    expires_ms: int

    def covers(self, thread_id: str, tool_digest: str, policy_version: str | None) -> bool:
        """Return whether a call of this tool in this thread is approved by it."""
        is_here = self.scope == Scope.TOOL or self.thread_id == thread_id
        return is_here and self.tool_digest == tool_digest and self.policy_version == policy_version

    @property
    def sentence(self) -> str:
        """Who approved what until when, as it is recorded with a call."""
        return f"approved by {self.approved_by} {WORDS[Scope(self.scope)]} until {stamp(self.expires_ms)} ({self.id})"


def grant(connection: Connection, run: Row[Any], question: Row[Any], scope: str, seconds: int, by: str) -> str:
    """Insert a sticky approval beside the approval of a call, and return when it ends, UTC."""
    now = wall_ms(connection)
    expires_ms = now + seconds * 1000
    ours = sticky_approvals.c.tenant == run.tenant
    connection.execute(delete(sticky_approvals).where(ours, sticky_approvals.c.expires_ms < now - KEPT_MS))
    values = {name: getattr(run, name) for name in ("tenant", "principal", "agent_id", "thread_id", "private")}
    values |= {"name": question.name, "tool_digest": question.tool_digest, "policy_version": question.policy_version}
    values["behaviour"] = behaviour_of_version(run.agent_id, run.definition_digest)
    values |= {"id": new_id("stk"), "scope": scope, "approval_id": question.id, "approved_by": by}
    connection.execute(insert(sticky_approvals).values(**values, created_ms=now, expires_ms=expires_ms))
    return stamp(expires_ms)


def behaviour_of_version(agent_id: Any, digest: Any) -> Any:
    """Return the query for how an agent's version behaves, as a digest; NULL for a definition of an earlier release."""
    its = agent_versions.c.agent_id == agent_id, agent_versions.c.digest == digest
    return select(agent_versions.c.behaviour).where(*its).scalar_subquery()


def valid_of(
    connection: Connection, tenant: str, principal: str, agent_id: str, digest: str
) -> tuple[StickyApproval, ...]:
    """Return those that are valid now for runs of a principal with an agent that behaves as this definition."""
    ours = {"tenant_": tenant, "principal_": principal, "agent_": agent_id, "digest_": digest}
    rows = connection.execute(_VALID_OF, ours)
    return tuple(StickyApproval(**row) for row in rows.mappings())


def require_valid(connection: Connection, ids: Collection[str]) -> None:
    """Check, in the transaction in which calls begin by them, that these are valid; none is revoked before it commits.

    Raises:
        StickyOver: one has ended.
    """
    if ids:
        rows = connection.execute(_STILL_VALID, {"ids_": sorted(set(ids))}).all()
        if len(rows) < len(set(ids)):
            raise StickyOver


class StickyApprovals:
    """Lists sticky approvals, finds those that are valid, and ends them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def valid_of(self, tenant: str, principal: str, agent_id: str, digest: str) -> tuple[StickyApproval, ...]:
        """Return those that are valid now for runs of a principal with this version of an agent."""
        with self._database.read() as connection:
            return valid_of(connection, tenant, principal, agent_id, digest)

    def page(
        self,
        principal: Principal,
        *,
        limit: int = 50,
        before_ms: int | None = None,
        before_id: str = "",
        are_valid: bool = False,
    ) -> list[dict[str, Any]]:
        """Return those about which a principal may decide, the newest first, as the API shows them, with ended ones
        unless they have to be valid."""
        time_ms, id_ = sticky_approvals.c.created_ms, sticky_approvals.c.id
        query = select(sticky_approvals).where(rows_for(principal, Verb.DECIDE, sticky_approvals))
        query = query.where(*_NOW) if are_valid else query
        query = newest_first(query, time_ms, id_, limit=limit, before_ms=before_ms, before_id=before_id)
        with self._database.read() as connection:
            now = wall_ms(connection)
            return [_shown(row, now) for row in connection.execute(query)]

    def revoke(self, principal: Principal, sticky_id: str, *, by: str) -> dict[str, Any]:
        """End a sticky approval and return it; a second time changes nothing. Calls that begin afterwards ask again.

        Raises:
            STICKY_UNKNOWN: there is none with this id about which the principal may decide.
        """
        ours = and_(sticky_approvals.c.id == sticky_id, rows_for(principal, Verb.DECIDE, sticky_approvals))
        with self._database.write() as connection:
            ending = update(sticky_approvals).where(ours, sticky_approvals.c.revoked_ms.is_(None))
            is_new = connection.execute(ending.values(revoked_ms=WALL_MS, revoked_by=by)).rowcount > 0
            row = connection.execute(select(sticky_approvals).where(ours)).first()
            if row is None:
                raise STICKY_UNKNOWN(sticky_id=sticky_id[:80])
            now = wall_ms(connection)
            if is_new:
                facts = {"call": row.name, "scope": row.scope, "by": by if by != principal.id else None}
                record(connection, principal, Action.APPROVAL_REVOKED, "sticky_approval", sticky_id, **facts)
            return _shown(row, now)


def _shown(row: Row[Any], now_ms: int) -> dict[str, Any]:
    names = ("scope", "name", "agent_id", "thread_id", "principal", "approved_by", "approval_id", "revoked_by")
    fields = {name: getattr(row, name) for name in names}
    fields["thread_id"] = row.thread_id if row.scope == Scope.THREAD else None
    fields["agent"] = fields.pop("agent_id")
    times = {"created_at": stamp(row.created_ms), "expires_at": stamp(row.expires_ms)}
    revoked_at = stamp(row.revoked_ms) if row.revoked_ms is not None else None
    is_valid = row.revoked_ms is None and row.expires_ms > now_ms
    return present({"sticky_id": row.id, **fields, **times, "revoked_at": revoked_at, "is_valid": is_valid})


_NOW: tuple[ColumnElement[bool], ...] = (
    sticky_approvals.c.revoked_ms.is_(None),
    sticky_approvals.c.expires_ms > WALL_MS,
)
_COLUMNS = [sticky_approvals.c[name] for name in StickyApproval.__slots__]
_VALID_OF = (
    select(*_COLUMNS)
    .where(sticky_approvals.c.tenant == bindparam("tenant_"), sticky_approvals.c.principal == bindparam("principal_"))
    .where(sticky_approvals.c.agent_id == bindparam("agent_"), *_NOW)
    .where(
        or_(
            sticky_approvals.c.behaviour.is_(None),
            sticky_approvals.c.behaviour == behaviour_of_version(bindparam("agent_"), bindparam("digest_")),
        )
    )
    .order_by(sticky_approvals.c.created_ms)
)
_STILL_VALID = (
    select(sticky_approvals.c.id)
    .where(sticky_approvals.c.id.in_(bindparam("ids_", expanding=True)), *_NOW)
    .with_for_update(read=True)
)
