"""Which calls a rule is about: what is fixed for a tool and an agent is decided once, the rest at each call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

from config.policy.decision import CallFacts
from config.policy.rule import CallMatch, SpentAtLeast

READ_FROM = "from:"
"""How a label begins that names a tool whose result the run has read."""

Check = Callable[[CallFacts, int], bool]
"""Takes the facts of a call and the time, in ms since 1970."""


def may_match(match: CallMatch, facts: CallFacts) -> bool:
    """Return whether the parts of ``match`` that are the same for all such calls fit; see ``fixed_facts``."""
    return (
        (match.tools is None or (facts.point == "tool" and is_named(facts.name, match.tools)))
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
        facts.model,
        facts.agent_id,
        facts.tenant,
        facts.effect,
        facts.classification,
        facts.is_privileged,
    )


def checks_of(match: CallMatch) -> list[Check]:
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
        sources = Names(match.provenance)
        found.append(lambda facts, _at_ms: any(sources.include(name) for name in read_from(facts.labels)))
    if match.spent is not None:
        spent = match.spent
        found.append(lambda facts, _at_ms: _has_spent(facts, spent))
    if match.time is not None:
        window = match.time
        found.append(lambda _facts, at_ms: window.includes(at_ms))
    return found


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
