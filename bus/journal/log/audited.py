"""Entries of the audit log for starts of runs and for calls, where the deployment wants them (``audit_calls``).

The caller records them last in its transaction, as ``bus.identity.audit.recording`` says.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, select

from bus.identity.audit.entry import Action
from bus.identity.audit.recording import record, record_state
from bus.journal.states.lease import Lease
from bus.journal.states.release import Handover
from config.database.tables import steps
from config.identity.principal import Principal


def audit_definition(connection: Connection, lease: Lease, handover: Handover) -> None:
    """Add an entry if a run was handed over to a definition that is not the last one recorded for its agent."""
    principal, state = Principal(tenant=lease.tenant, id=lease.principal), {"definition": handover.definition_digest}
    record_state(connection, principal, Action.AGENT_CONFIGURED, "agent", handover.agent_id, state)


def audit_calls(connection: Connection, lease: Lease, step_ids: Collection[str]) -> None:
    """Add an entry for each of these steps that has begun, or begins again, in the name of the run's principal."""
    columns = steps.c["id", "kind", "name", "call_id", "effect", "arguments_digest", "attempt"]
    query = select(*columns).where(steps.c.id.in_(step_ids), steps.c.status != "planned").order_by(steps.c.number)
    principal = Principal(tenant=lease.tenant, id=lease.principal)
    for step in connection.execute(query).all():
        facts = {"run": lease.run_id, "kind": step.kind, "name": step.name, "call": step.call_id, "effect": step.effect}
        facts |= {"arguments": step.arguments_digest, "attempt": step.attempt, "fence": lease.fence}
        record(connection, principal, Action.CALL_STARTED, "step", step.id, **facts)
