"""Accepting a child run: with a commit of its parent, so that there is one child for the step, or none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, select

from bus.identity.audit.entry import Action
from bus.identity.audit.recording import record as audit
from bus.journal.acceptance.accept import (
    insert_child,
    is_prepared,
    record_configuration,
    remember_configuration,
)
from bus.journal.acceptance.new_run import NewRun
from bus.journal.acceptance.run_limits import RunLimits, require_room, run_limits
from bus.journal.errors import DELEGATION_REFUSED, TOO_MANY_RUNS
from bus.journal.outbox import announce
from bus.journal.records.definition_store import pin, remember_pinned
from bus.journal.records.parent import Parent
from bus.journal.states.codes import LIMIT
from bus.journal.states.queue_order import priority_name
from config.database.engine import WALL_MS, Database
from config.database.tables import runs, timers
from config.errors import Retryable
from config.ids import new_id
from config.settings import Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptedChild:
    """A child run that a commit of its parent inserts (``bus.journal.log.commit.NewChild``)."""

    new: NewRun
    parent: Parent
    limits: RunLimits
    most: int
    """Most children that the parent may have at a time."""

    @property
    def run_id(self) -> str:
        return self.parent.child_id

    def insert(self, connection: Connection) -> None:
        """Insert the run, its thread, its message and its outbox row.

        Its parent's commit has locked the parent's row and checked who owns it, so that no second child of the step
        can be on its way, and the parent's end finds this one.

        Raises:
            DELEGATION_REFUSED: the parent, the principal or the tenant has as many runs as it may.
        """
        parent = connection.execute(_PARENT, {"parent_": self.parent.run_id}).one()
        if parent.open_children >= self.most:
            raise DELEGATION_REFUSED(
                f"this run has {self.most} child runs that have not ended, as many as it may "
                "(CALLBOARD_CHILD_RUNS); wait for their results and call again."
            )
        try:
            require_room(connection, self.new.principal, self.limits)
        except Retryable as error:
            if error.code != TOO_MANY_RUNS.code:
                raise
            raise DELEGATION_REFUSED(str(error)) from error  # not tried again for as long as the parent lives
        insert_child(connection, replace(self.new, priority=priority_name(parent.priority)))
        if self.parent.timeout_ms is not None:
            timer = {"id": new_id("tmr"), "run_id": self.run_id, "kind": LIMIT}
            connection.execute(insert(timers).values(**timer, due_ms=WALL_MS + self.parent.timeout_ms))
        announce(connection, self.run_id)

    def audit(self, connection: Connection) -> None:
        """Record its start."""
        new, parent = self.new, self.parent
        facts: dict[str, Any] = {"trace_id": parent.trace_id, "definition_digest": new.definition_digest}
        facts |= {"kind": new.kind, "correlation_id": parent.correlation_id, "parent": parent.run_id}
        audit(connection, new.principal, Action.RUN_STARTED, "run", self.run_id, agent=new.agent_id, **facts)


_OPEN = select(func.count()).where(runs.c.parent_id == bindparam("parent_"), runs.c.ended_ms.is_(None))
_PARENT = select(runs.c.priority, _OPEN.correlate(None).scalar_subquery().label("open_children")).where(
    runs.c.id == bindparam("parent_")
)


def new_child(database: Database, new: NewRun, settings: Settings) -> AcceptedChild:
    """Return what the parent's commit inserts.

    The definition and its entry in the audit log are written before, in a transaction of their own: several children
    may share a transaction, which would lock these rows in any order.
    """
    assert new.parent is not None, "a child has a parent"
    tenant = new.principal.tenant
    if not is_prepared(database, new):
        with database.write() as connection:
            pin(connection, new.definition_digest, new.agent_id, new.definition_json)
            record_configuration(connection, new)
        remember_pinned(database, new.definition_digest)
        remember_configuration(database, tenant, new.agent_id, new.definition_digest)
    return AcceptedChild(new=new, parent=new.parent, limits=run_limits(settings, tenant), most=settings.child_runs)
