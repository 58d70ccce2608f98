"""Who may do what: one decision for HTTP, streams, the terminal and Python.

``may`` decides about one object. ``rows_for`` is the same decision as a condition of SQL, so that a query reads no row
its principal may not see.
"""

from __future__ import annotations

from typing import Protocol

from sqlalchemy import ColumnElement, Table, and_, false, or_

from config.identity.principal import Principal, Reach, Verb


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
