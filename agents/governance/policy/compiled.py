"""A rule of the policy, ready to be asked: its names and patterns are prepared, its conditions compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.governance.policy.condition import Condition
from agents.governance.policy.facts import Evaluation
from agents.governance.policy.matching import Check, ToolNames, checks_of
from agents.governance.policy.rule import RuleFields
from config.policy_decision import CallFacts, Verdict


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
            ConditionFailed: one cannot be computed.
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
        ConditionRefused: one cannot be used.
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
