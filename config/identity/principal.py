"""Principals: who asks, with the roles of a person and the scope of a credential.

A principal acts on its own runs and threads. Roles widen that within its tenant; the scope of its credential narrows
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum


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
