"""A rule of the policy, ready to be asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.governance.policy.condition import Condition
from agents.governance.policy.facts import Evaluation
from agents.governance.policy.matching import Check, checks_of, is_about, may_match
from agents.governance.policy.rule import RuleFields
from config.policy_decision import CallFacts, Verdict

_NO_CHANGES: dict[str, Any] = {}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CompiledRule:
    """A rule with its conditions compiled."""

    fields: RuleFields
    file: str
    line: int
    condition: Condition | None
    computed: Mapping[str, Condition]
    checks: tuple[Check, ...]
    """Of ``when``: all have to be true."""
    exception: tuple[Check, ...]
    """Of ``unless``: where all are true the rule does not match."""
    is_fixed: bool
    """Whether nothing but the condition is left to be looked at, where ``may_match`` is true."""

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
        return frozenset[str]().union(*(one.names for one in conditions))

    def names_source(self, facts: CallFacts) -> bool:
        """Return whether its ``provenance`` has a call's tool, so that runs have to remember that they read from it."""
        unless = self.fields.unless
        listed = (*(self.fields.when.provenance or ()), *((unless.provenance if unless else None) or ()))
        return is_about(facts, listed, of_names=True)

    def is_about(self, facts: CallFacts) -> bool:
        """Return whether it means the tool of a call, and not only a name that its server gave to it."""
        tools = self.fields.when.tools
        return tools is None or is_about(facts, tools, of_names=False)

    def may_match(self, facts: CallFacts) -> bool:
        """Return whether the rule may match a call of this kind."""
        if self.fields.point != facts.point or not may_match(self.fields.when, facts):
            return False
        unless = self.fields.unless
        return unless is None or bool(self.exception) or not may_match(unless, facts, is_exception=True)

    def applies(self, facts: CallFacts, at_ms: int) -> bool:
        """Return whether everything but the condition matches a call of which ``may_match`` is true."""
        for check in self.checks:
            if not check(facts, at_ms):
                return False
        unless = self.fields.unless
        if unless is None or not self.exception:
            return True
        return not (
            may_match(unless, facts, is_exception=True) and all(check(facts, at_ms) for check in self.exception)
        )

    def changes(self, evaluation: Evaluation) -> dict[str, Any]:
        """Return the arguments that take the place of the call's own.

        Raises:
            ConditionFailed: one cannot be computed.
        """
        if not self.fields.arguments and not self.computed:
            return _NO_CHANGES
        return self.fields.arguments | {name: cel.result(evaluation) for name, cel in self.computed.items()}


def compiled(fields: RuleFields, file: str, line: int) -> CompiledRule:
    """Return the rule with its conditions compiled.

    Raises:
        ConditionRefused: one cannot be used.
    """
    checks = tuple(checks_of(fields.when))
    exception = tuple(checks_of(fields.unless, is_exception=True)) if fields.unless is not None else ()
    return CompiledRule(
        fields=fields,
        file=file,
        line=line,
        condition=Condition(fields.condition) if fields.condition is not None else None,
        computed={name: Condition(source, is_boolean=False) for name, source in fields.computed.items()},
        checks=checks,
        exception=exception,
        is_fixed=not checks and not exception,
    )
