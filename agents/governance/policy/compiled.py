"""A rule of the policy, ready to be asked: its names and patterns are prepared, its conditions compiled."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate
from operator import attrgetter
from typing import Any

from agents.governance.policy.condition import Condition, Evaluation
from agents.governance.policy.rule import CallMatch, RuleFields, SpentAtLeast
from config.definitions.mcp.names import PREFIX, own_names, prefixed_name
from config.policy_decision import READ_FROM, CallFacts, Verdict

Check = Callable[[CallFacts, int], bool]
"""Takes the facts of a call and the time, in ms since 1970."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CompiledRule:
    """A rule with its conditions compiled."""

    fields: RuleFields
    file: str
    line: int
    condition: Condition | None
    computed: Mapping[str, Condition]
    when: tuple[Check, ...]
    """All have to be true."""
    unless: tuple[Check, ...]
    """Where all are true the rule does not match; none: it has no exception."""

    @property
    def name(self) -> str:
        return self.fields.name

    @property
    def verdict(self) -> Verdict:
        return self.fields.verdict

    @property
    def names(self) -> frozenset[str]:
        """The facts that its conditions may read."""
        conditions = (*self.computed.values(), *(() if self.condition is None else (self.condition,)))
        return frozenset[str]().union(*(condition.names for condition in conditions))

    @property
    def sources(self) -> tuple[str, ...]:
        """The tools of its ``provenance``: runs have to remember that they read from these."""
        parts = (self.fields.when, self.fields.unless)
        return tuple(name for part in parts if part is not None for name in part.provenance or ())

    def may_concern(self, tenant: str) -> bool:
        """Return whether it may match a call of a run of this tenant."""
        tenants = self.fields.when.tenants
        return tenants is None or any(fnmatchcase(tenant, pattern) for pattern in tenants)

    def means(self, facts: CallFacts) -> bool:
        """Return whether it means the tool of a call, and not only a name that its server gave to it."""
        tools = self.fields.when.tools
        return tools is None or ToolNames(tools).list_tool(facts, of_names=False)

    def applies(self, facts: CallFacts, at_ms: int) -> bool:
        """Return whether everything but the condition matches a call of its point at a time, in ms since 1970."""
        return _match(self.when, facts, at_ms) and not (self.unless and _match(self.unless, facts, at_ms))

    def changes(self, evaluation: Evaluation) -> dict[str, Any]:
        """Return the arguments that take the place of the call's own.

        Raises:
            ExpressionFailed: one cannot be computed.
        """
        return self.fields.arguments | {name: cel.result(evaluation) for name, cel in self.computed.items()}


def _match(checks: tuple[Check, ...], facts: CallFacts, at_ms: int) -> bool:
    for check in checks:  # noqa: SIM110 - `all` with a generator takes twice as long
        if not check(facts, at_ms):
            return False
    return True


def compiled(fields: RuleFields, file: str, line: int) -> CompiledRule:
    """Return the rule with its conditions compiled.

    Raises:
        ExpressionRefused: one cannot be used.
    """
    return CompiledRule(
        fields=fields,
        file=file,
        line=line,
        condition=Condition(fields.condition) if fields.condition is not None else None,
        computed={name: Condition(source, is_boolean=False) for name, source in fields.computed.items()},
        when=tuple(checks_of(fields.when, of_names=True)),
        unless=() if fields.unless is None else tuple(checks_of(fields.unless, of_names=False)),
    )


# --- which calls a rule is about


def checks_of(match: CallMatch, *, of_names: bool) -> Iterator[Check]:
    """Yield a check of each field that is given, those first that take the least time.

    ``of_names``: a tool is listed by its name at its server too, which is not enough for an exception.
    """
    for field, check_of in _CHECKS.items():
        value = getattr(match, field)
        if value is not None:
            yield check_of(value, of_names)


CheckOf = Callable[[Any, bool], Check]
"""Returns the check of a field of ``CallMatch`` with this value; see ``checks_of`` for the second argument."""


def _has_tool(listed: Iterable[str], of_names: bool) -> Check:
    tools = ToolNames(listed)
    return lambda facts, _at_ms: tools.list_tool(facts, of_names)


def _has_read(listed: Iterable[str], of_names: bool) -> Check:
    sources = ToolNames(listed)
    return lambda facts, _at_ms: any(sources.has(name, of_names) for name in read_from(facts.labels))


def _is_one(fact: str) -> CheckOf:
    """Return the maker of checks that a fact is one of the listed values."""
    value_of = attrgetter(fact)

    def check_of(listed: Iterable[Any], _of_names: bool) -> Check:
        values = frozenset(listed)
        return lambda facts, _at_ms: value_of(facts) in values

    return check_of


def _is_named(fact: str) -> CheckOf:
    """Return the maker of checks that a fact is one of the listed names, or fits a pattern among them."""
    name_of = attrgetter(fact)

    def check_of(listed: Iterable[str], _of_names: bool) -> Check:
        names = Names(listed)
        return lambda facts, _at_ms: names.include(name_of(facts))

    return check_of


def _has_role(listed: Iterable[str], _of_names: bool) -> Check:
    roles = Names(listed)
    return lambda facts, _at_ms: roles.include_any(facts.roles)


def _has_labels(listed: Iterable[str], _of_names: bool) -> Check:
    labels = frozenset(listed)
    return lambda facts, _at_ms: labels <= facts.labels


_CHECKS: Mapping[str, CheckOf] = {
    "tools": _has_tool,
    "effects": _is_one("effect"),
    "classifications": _is_one("classification"),
    "privileged": lambda value, _of_names: lambda facts, _at_ms: facts.is_privileged is value,
    "labels": _has_labels,
    "spent": lambda least, _of_names: lambda facts, _at_ms: _has_spent(facts, least),
    "models": _is_named("model"),
    "agents": _is_named("agent_id"),
    "tenants": _is_named("tenant"),
    "principals": _is_named("principal"),
    "roles": _has_role,
    "provenance": _has_read,
    "time": lambda window, _of_names: lambda _facts, at_ms: window.includes(at_ms),
}
"""By the fields of ``CallMatch``, which has no others."""


class Names:
    """Names, and patterns with ``*`` and ``?``."""

    __slots__ = ("_names", "_pattern")

    def __init__(self, listed: Iterable[str]) -> None:
        self._names = frozenset(listed)
        patterns = [translate(name) for name in listed if "*" in name or "?" in name]
        self._pattern = re.compile("|".join(patterns)) if patterns else None

    def include(self, name: str) -> bool:
        """Return whether a name is one of these, or fits a pattern among them."""
        return name in self._names or (self._pattern is not None and self._pattern.match(name) is not None)

    def include_any(self, names: Iterable[str]) -> bool:
        """Return whether one of the names is one of these, or fits a pattern among them."""
        if self._pattern is None:
            return not self._names.isdisjoint(names)
        return any(map(self.include, names))


class ToolNames:
    """Tools: what begins with ``mcp:`` is an identity, or with ``mcp:server`` a whole server; all others are names."""

    __slots__ = ("_identities", "_listed", "_names")

    def __init__(self, listed: Iterable[str]) -> None:
        self._listed = frozenset(listed)
        identities = [tool_name for tool_name in listed if tool_name.startswith(PREFIX)]
        self._identities = Names([*identities, *(f"{identity}/*" for identity in identities if "/" not in identity)])
        self._names = Names([tool_name for tool_name in listed if not tool_name.startswith(PREFIX)])

    def has(self, name: str, of_names: bool = False) -> bool:
        """Return whether a name or an identity is listed; ``of_names``: or a name that belongs to the identity."""
        if not name.startswith(PREFIX):
            return self._names.include(name)
        return self._identities.include(name) or (of_names and self._has_name_of(name))

    def list_tool(self, facts: CallFacts, of_names: bool) -> bool:
        """Return whether a call's tool is listed, by its identity or the name that its run's model uses.

        ``of_names``: or by its name at its server, which other servers may give to a tool of theirs.
        """
        return self.has(facts.name) or (facts.identity != "" and self.has(facts.identity, of_names))

    def _has_name_of(self, identity: str) -> bool:
        """Return whether a name is listed that its server may call a tool by, or that a clash of names gives to it."""
        return prefixed_name(identity) in self._listed or any(map(self._names.include, own_names(identity)))


def read_from(labels: Iterable[str]) -> list[str]:
    """Return the names of the tools whose results a run with these labels has read."""
    return [label.removeprefix(READ_FROM) for label in labels if label.startswith(READ_FROM)]


def _has_spent(facts: CallFacts, least: SpentAtLeast) -> bool:
    return (
        (least.cost_usd is None or facts.cost_usd >= least.cost_usd)
        and (least.tokens is None or facts.tokens >= least.tokens)
        and (least.steps is None or facts.steps >= least.steps)
    )
