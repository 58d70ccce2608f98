"""Principals: who asks, with the roles of a person and the scope of a credential.

A principal acts on its own runs and threads. Roles widen that within its tenant; the scope of its credential narrows
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum

NAME = r"[A-Za-z0-9][A-Za-z0-9_.@+-]{0,63}"
"""What a tenant and a principal may be called; their folders have the same names."""
NAME_FORM = "a name: 1 to 64 letters, digits, '_', '-', '.', '@' and '+', a letter or digit first"


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
    """The scope of its credential: what it may be used for at most; ``see`` is always in it."""
    agents: frozenset[str] | None = None
    """The agents its credential may be used for; None: all."""

    def reach(self, verb: Verb) -> Reach:
        """Return whose objects the principal reaches with a verb."""
        if verb not in self.verbs and verb is not Verb.SEE:
            return Reach.NONE
        return max(_WITHOUT_ROLE[verb], *(_BY_ROLE[role].get(verb, Reach.NONE) for role in self.roles), Reach.NONE)


def roles_that_reach(verb: Verb) -> list[Role]:
    """Return the roles with which a principal reaches others' objects with a verb."""
    return [role for role in Role if _BY_ROLE[role].get(verb, Reach.NONE) >= Reach.SHARED]


LOCAL = Principal(roles=frozenset(Role))
"""The one principal of an installation without authentication."""


def parse_mapping(text: str) -> Mapping[str, frozenset[Role]]:
    """Return the roles that each value gives.

    Raises:
        ValueError: a part is not ``value=role``, or names a role that does not exist.
    """
    mapping: dict[str, frozenset[Role]] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        value, _, role = (word.strip() for word in part.rpartition("="))
        if not value or role not in set(Role):
            raise ValueError(f"'{part}' has to be a claim's value, '=' and a role: {', '.join(Role)}")
        mapping[value] = mapping.get(value, frozenset()) | {Role(role)}
    return mapping


def roles_of(claim: object, mapping: Mapping[str, frozenset[Role]]) -> frozenset[Role]:
    """Return the roles of a claim's values: a list, or a text with spaces between them. Other values give none."""
    values: Iterable[object] = claim.split() if isinstance(claim, str) else claim if isinstance(claim, list) else ()
    return frozenset(role for value in values if isinstance(value, str) for role in mapping.get(value, ()))
