"""Who may do what: one decision for HTTP, streams, the terminal and Python.

A principal acts on its own runs and threads. Roles widen that within its tenant; the scope of a credential narrows it.
``may`` decides about one object. ``rows_for`` is the same decision as a condition of SQL, so that a query reads no row
its principal may not see.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Protocol

from sqlalchemy import ColumnElement, Table, and_, false, or_


class Verb(StrEnum):
    """What a principal wants to do."""

    SEE = "see"
    """Read a run, a thread or an agent, and follow its events."""
    START = "start"
    """Start a run of an agent."""
    CONTROL = "control"
    """Stop, steer or delete a run or a thread."""
    DECIDE = "decide"
    """Answer an approval."""
    ADMINISTER = "administer"
    """Manage the keys of a tenant, and read its audit log."""


class Role(StrEnum):
    """What widens a principal's reach from its own objects to those of its tenant."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"
    ADMIN = "admin"


class Reach(IntEnum):
    """Whose objects a principal reaches with a verb; each level includes those before it."""

    NONE = 0
    OWN = 1
    SHARED = 2
    """Those of its tenant, unless the agent's runs are private."""
    TENANT = 3
    """All of its tenant."""


_WITHOUT_ROLE = {**dict.fromkeys(Verb, Reach.OWN), Verb.ADMINISTER: Reach.NONE}
_BY_ROLE: Mapping[Role, Mapping[Verb, Reach]] = {
    Role.VIEWER: {Verb.SEE: Reach.SHARED},
    Role.OPERATOR: {Verb.SEE: Reach.SHARED, Verb.CONTROL: Reach.SHARED},
    Role.APPROVER: {Verb.SEE: Reach.SHARED, Verb.DECIDE: Reach.SHARED},
    Role.ADMIN: dict.fromkeys(Verb, Reach.TENANT),
}
"""Role -> verb -> reach; the other verbs reach as far as without the role."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Principal:
    """A person or a program that asks, as its credential describes it."""

    tenant: str = "default"
    id: str = "local"
    roles: frozenset[Role] = frozenset()
    verbs: frozenset[Verb] = frozenset(Verb)
    """The scope of its credential: what it may be used for at most."""
    agents: frozenset[str] | None = None
    """The agents its credential may be used for; None: all."""

    def reach(self, verb: Verb) -> Reach:
        """Return whose objects the principal reaches with a verb."""
        if verb not in self.verbs:
            return Reach.NONE
        return max(_WITHOUT_ROLE[verb], *(_BY_ROLE[role].get(verb, Reach.NONE) for role in self.roles), Reach.NONE)


LOCAL = Principal(roles=frozenset(Role))
"""The one principal of an installation without authentication."""


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
    if principal.agents is not None and target.agent_id not in principal.agents:
        return False
    needed = Reach.OWN if target.principal == principal.id else Reach.TENANT if target.private else Reach.SHARED
    return principal.reach(verb) >= needed


def rows_for(principal: Principal, verb: Verb, table: Table) -> ColumnElement[bool]:
    """Return ``may`` as a condition on the rows of ``runs`` or ``threads``."""
    reach = principal.reach(verb)
    if reach is Reach.NONE:
        return false()
    conditions = [table.c.tenant == principal.tenant]
    if principal.agents is not None:
        conditions.append(table.c.agent_id.in_(sorted(principal.agents)))
    own = table.c.principal == principal.id
    if reach is Reach.OWN:
        conditions.append(own)
    elif reach is Reach.SHARED:
        conditions.append(or_(own, ~table.c.private))
    return and_(*conditions)
