"""Who may do what: one decision for HTTP, streams, the terminal and Python.

``may`` decides about one run or thread. ``rows_for`` is the same decision as a condition of SQL, so that a query reads
no row that its principal may not see. ``sees_agent`` and ``may_start`` decide about an agent, by
its definition's ``access``.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol

import orjson
from sqlalchemy import ColumnElement, Table, and_, false, or_, select

from bus.identity.errors import forbidden
from config.database.tables import thread_agents
from config.identity.principal import LOCAL, Principal, Reach, Verb

if TYPE_CHECKING:
    from config.definitions.agent import AgentDefinition


MAX_CONDITIONS = 1000
"""Conditions of SQL that are kept, those used last: one for each principal, verb and table."""


class Protected(Protocol):
    """An object of a tenant: the row of a run or a thread, or what stands for a new one."""

    @property
    def tenant(self) -> str: ...
    @property
    def principal(self) -> str: ...
    @property
    def private(self) -> bool: ...
    @property
    def agent_id(self) -> str: ...


def may(principal: Principal, verb: Verb, target: Protected) -> bool:
    """Return whether a principal may do this with an object."""
    if target.tenant != principal.tenant:
        return False
    if principal.agents is not None and not {target.agent_id, *_earlier_agents(target)} <= principal.agents:
        return False
    needed = Reach.OWN if target.principal == principal.id else Reach.TENANT if target.private else Reach.SHARED
    return principal.reach(verb) >= needed


def _earlier_agents(target: Protected) -> list[str]:
    """Return the agents that have handed a run over, whose events are in its log as well."""
    handed_from = getattr(target, "handed_from_json", None)
    return orjson.loads(handed_from) if handed_from is not None else []


def require(principal: Principal, verb: Verb, target: Protected, what: str) -> None:
    """Raise ``FORBIDDEN`` unless a principal may do this with an object that it sees; ``what`` names the object."""
    if not may(principal, verb, target):
        raise forbidden(principal, verb, what)


def sees_agent(principal: Principal, agent: AgentDefinition) -> bool:
    """Return whether an agent exists for a principal: for its tenant, and in the scope of its credential."""
    is_in_scope = principal.agents is None or agent.id in principal.agents
    return is_in_scope and (not agent.access.tenants or principal.tenant in agent.access.tenants)


def may_start(principal: Principal, agent: AgentDefinition) -> bool:
    """Return whether a principal may start runs of an agent that it sees. An admin may start each of them."""
    access = agent.access
    reach = principal.reach(Verb.START)
    if reach is not Reach.OWN or not (access.roles or access.principals):
        return reach is not Reach.NONE
    return principal.id in access.principals or bool(principal.roles & access.roles)


@lru_cache(MAX_CONDITIONS)
def rows_for(principal: Principal, verb: Verb, table: Table) -> ColumnElement[bool]:
    """Return ``may`` as a condition on the rows of ``runs`` or ``threads``. Making one takes most of a short query."""
    reach = principal.reach(verb)
    if reach is Reach.NONE:
        return false()
    conditions = [table.c.tenant == principal.tenant]
    if principal.agents is not None:
        conditions.append(table.c.agent_id.in_(sorted(principal.agents)))
        if "handed_from_json" in table.c:
            conditions.append(or_(table.c.handed_from_json.is_(None), ~_is_of_others(principal.agents, table)))
    own = table.c.principal == principal.id
    if reach is Reach.OWN:
        conditions.append(own)
    elif reach is Reach.SHARED:
        conditions.append(or_(own, ~table.c.private))
    return and_(*conditions)


def _is_of_others(agents: Collection[str], table: Table) -> ColumnElement[bool]:
    """Return whether a run's thread has another agent, such as one that handed the run over: its log is theirs too."""
    others = thread_agents.c.thread_key == table.c.thread_key, thread_agents.c.agent_id.not_in(sorted(agents))
    return select(thread_agents.c.agent_id).where(*others).exists()


def require_may_log(principal: Principal) -> None:
    """Raise ``FORBIDDEN`` unless a principal may log internal events: its credential is one that starts runs."""
    if principal.reach(Verb.START) is Reach.NONE:
        raise forbidden(principal, Verb.START, "runs or log events")


def require_may_end_sessions(principal: Principal) -> None:
    """Raise ``FORBIDDEN`` unless a principal may end its sessions: its credential is one that stops and deletes."""
    if principal.reach(Verb.CONTROL) is Reach.NONE:
        raise forbidden(principal, Verb.CONTROL, "the sessions of your principal")


def logged_for(principal: Principal, table: Table) -> ColumnElement[bool]:
    """Return the condition on internal events that a principal sees: its own, and with a role those of its tenant.

    Events belong to no agent, so a credential for some agents reaches its principal's own and no others.
    """
    its = table.c.tenant == principal.tenant
    if principal.agents is None and principal.reach(Verb.SEE) >= Reach.SHARED:
        return its
    return and_(its, table.c.principal == principal.id)


def may_administer(principal: Principal) -> bool:
    """Return whether a principal may manage the keys of its tenant, and read its audit log.

    Keys and entries are not those of one agent, so a credential for some agents administers nothing.
    """
    return principal.agents is None and principal.reach(Verb.ADMINISTER) is Reach.TENANT


def may_promote(principal: Principal, agent: AgentDefinition) -> bool:
    """Return whether a principal may say which version of an agent serves: an operator or administrator of its tenant.

    Of an agent that several tenants share, the tenant of the deployment's own operators decides.
    """
    is_theirs = principal.tenant == LOCAL.tenant or agent.access.tenants == {principal.tenant}
    return is_theirs and sees_agent(principal, agent) and principal.reach(Verb.CONTROL) >= Reach.SHARED


def require_may_read_metrics(principal: Principal) -> None:
    """Raise ``FORBIDDEN`` unless a principal may read the sums of all tenants: it sees the runs of tenant ``default``.

    A credential for some agents reads none, since the sums are of all.
    """
    if principal.tenant != LOCAL.tenant or principal.agents is not None or principal.reach(Verb.SEE) < Reach.SHARED:
        raise forbidden(principal, Verb.SEE, "the metrics of all tenants, from another one or without a role")


def require_may_see_policy(principal: Principal) -> None:
    """Raise ``FORBIDDEN`` unless a principal may read the policy's rules: it sees the runs of others.

    A credential for some agents reads none, since rules are about all.
    """
    if principal.agents is not None or principal.reach(Verb.SEE) < Reach.SHARED:
        raise forbidden(principal, Verb.SEE, "the policy's rules, without a role")


def require_may_examine(principal: Principal) -> None:
    """Raise ``FORBIDDEN`` unless a principal may read what the doctor says of the servers that all tenants share.

    Operators and administrators of the tenant ``default`` may, with a credential for all agents.
    """
    if principal.tenant != LOCAL.tenant or principal.agents is not None or principal.reach(Verb.CONTROL) < Reach.SHARED:
        raise forbidden(principal, Verb.CONTROL, "the servers of this deployment, whose doctor is for its operators")


def may_see_machines(principal: Principal) -> bool:
    """Return whether a principal may see what all tenants share: hosts and processes, queues, numbers of viewers.

    Administrators of the tenant ``default`` may: that is the tenant of the deployment's own operators.
    """
    return principal.tenant == LOCAL.tenant and may_administer(principal)


def worker_id_for(principal: Principal, worker_id: str) -> str:
    """Return a worker's id as a principal may see it: the id names a machine, so that most see another in its place."""
    if may_see_machines(principal):
        return worker_id
    return blake2b(worker_id.encode(), digest_size=6).hexdigest()
