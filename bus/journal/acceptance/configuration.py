"""The audit log's entries about agents: with which definition a tenant's runs are accepted from then on."""

from __future__ import annotations

from sqlalchemy import Connection

from bus.identity.audit.entry import Action
from bus.identity.audit.recording import record_state
from config.database.engine import Database
from config.identity.principal import Principal

_recorded: dict[tuple[str, str, str], str] = {}
"""Database, tenant and agent -> the digest that this process accepted its last run with."""


def record_configuration(connection: Connection, principal: Principal, agent_id: str, digest: str) -> None:
    """Record the definition, in the transaction that accepts a run, if it is not the last one that was recorded.

    The principal is the first that started a run with it; who edited the file is not known here.
    """
    if _recorded.get((str(connection.engine.url), principal.tenant, agent_id)) == digest:
        return
    record_state(connection, principal, Action.AGENT_CONFIGURED, "agent", agent_id, {"definition": digest})


def remember_configuration(database: Database, tenant: str, agent_id: str, digest: str) -> None:
    """Remember what is recorded; to be called after the transaction was committed."""
    _recorded[str(database.engine.url), tenant, agent_id] = digest
