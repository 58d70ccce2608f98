"""Which calls a rule is about: what is fixed for a tool and an agent is decided once, the rest at each call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase

from agents.governance.policy.rule import CallMatch, SpentAtLeast
from config.definitions.mcp.names import PREFIX, own_names, prefixed_name
from config.policy_decision import READ_FROM, CallFacts

Check = Callable[[CallFacts, int], bool]
"""Takes the facts of a call and the time, in ms since 1970."""


def may_match(match: CallMatch, facts: CallFacts, *, is_exception: bool = False) -> bool:
    """Return whether the parts of ``match`` that are the same for all such calls fit; see ``fixed_facts``.

    ``is_exception``: it says which calls a rule is not about, for which a name at some server is not enough.
    """
    return (
        (match.tools is None or is_about(facts, match.tools, of_names=not is_exception))
        and (match.models is None or is_named(facts.model, match.models))
        and (match.agents is None or is_named(facts.agent_id, match.agents))
        and (match.tenants is None or is_named(facts.tenant, match.tenants))
        and (match.effects is None or facts.effect in match.effects)
        and (match.classifications is None or facts.classification in match.classifications)
        and (match.privileged is None or facts.is_privileged is match.privileged)
    )


def fixed_facts(facts: CallFacts) -> tuple[object, ...]:
    """Return what ``may_match`` looks at: calls with the same are about the same rules."""
    return (
        facts.point,
        facts.name,
        facts.identity,
        facts.model,
        facts.agent_id,
        facts.tenant,
        facts.effect,
        facts.classification,
        facts.is_privileged,
    )


def checks_of(match: CallMatch, *, is_exception: bool = False) -> list[Check]:
    """Return what has to be looked at for each call besides ``may_match``."""
    found: list[Check] = []
    if match.labels is not None:
        wanted = frozenset(match.labels)
        found.append(lambda facts, _at_ms: wanted <= facts.labels)
    if match.roles is not None:
        roles = Names(match.roles)
        found.append(lambda facts, _at_ms: any(roles.include(role) for role in facts.roles))
    if match.principals is not None:
        principals = Names(match.principals)
        found.append(lambda facts, _at_ms: principals.include(facts.principal))
    if match.provenance is not None:
        sources, of_names = ToolNames(match.provenance), not is_exception
        found.append(lambda facts, _at_ms: any(sources.has(name, of_names) for name in read_from(facts.labels)))
    if match.spent is not None:
        spent = match.spent
        found.append(lambda facts, _at_ms: _has_spent(facts, spent))
    if match.time is not None:
        window = match.time
        found.append(lambda _facts, at_ms: window.includes(at_ms))
    return found


def is_about(facts: CallFacts, listed: Sequence[str], *, of_names: bool) -> bool:
    """Return whether a call's tool is listed, by its identity or the name that its run's model uses.

    ``of_names``: or by its name at its server, which other servers may give to a tool of theirs.
    """
    names = ToolNames(listed)
    return facts.point == "tool" and (names.has(facts.name) or names.has(facts.identity, of_names))


class Names:
    """Names, and patterns with ``*`` and ``?``."""

    __slots__ = ("_names", "_patterns")

    def __init__(self, listed: Iterable[str]) -> None:
        self._names = frozenset(listed)
        self._patterns = tuple(name for name in listed if "*" in name or "?" in name)

    def include(self, name: str) -> bool:
        """Return whether a name is one of these, or fits a pattern among them."""
        if name in self._names:
            return True
        return bool(self._patterns) and any(fnmatchcase(name, pattern) for pattern in self._patterns)


class ToolNames:
    """Tools: what begins with ``mcp:`` is an identity, or with ``mcp:server`` a whole server; all others are names."""

    __slots__ = ("_identities", "_listed", "_names")

    def __init__(self, listed: Iterable[str]) -> None:
        self._listed = frozenset(listed)
        identities = [one for one in listed if one.startswith(PREFIX)]
        self._identities = Names([*identities, *(f"{one}/*" for one in identities if "/" not in one)])
        self._names = Names([one for one in listed if not one.startswith(PREFIX)])

    def has(self, name: str, of_names: bool = False) -> bool:
        """Return whether a name or an identity is listed; ``of_names``: or a name that belongs to the identity."""
        if not name.startswith(PREFIX):
            return self._names.include(name)
        return self._identities.include(name) or (of_names and self._has_name_of(name))

    def _has_name_of(self, identity: str) -> bool:
        """Return whether a name is listed that its server may call a tool by, or that a clash of names gives to it."""
        return prefixed_name(identity) in self._listed or any(map(self._names.include, own_names(identity)))


def read_from(labels: Iterable[str]) -> list[str]:
    """Return the names of the tools whose results a run with these labels has read."""
    return [label.removeprefix(READ_FROM) for label in labels if label.startswith(READ_FROM)]


def is_named(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a name is one of these, or fits a pattern among them."""
    return Names(tuple(patterns)).include(name)


def _has_spent(facts: CallFacts, least: SpentAtLeast) -> bool:
    return (
        (least.cost_usd is None or facts.cost_usd >= least.cost_usd)
        and (least.tokens is None or facts.tokens >= least.tokens)
        and (least.steps is None or facts.steps >= least.steps)
    )
