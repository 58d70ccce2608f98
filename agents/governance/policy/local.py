"""The policy of this deployment's own files: the strictest rule that matches a call decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agents.governance.policy.combining import Failure, combined, seen, vote_of
from agents.governance.policy.compiled import CompiledRule
from agents.governance.policy.condition import MAX_PARTS, Condition, Conditions
from agents.governance.policy.errors import ConditionFailed
from agents.governance.policy.facts import TOOL, Evaluation
from agents.governance.policy.matching import fixed_facts
from config.clock import epoch_ms
from config.policy_decision import READ_FROM, CallFacts, PolicyDecision, Verdict

MAX_KINDS = 4096
"""Kinds of calls (tool, agent, tenant, ...) whose rules are kept; beyond, they are looked up anew."""
FEW = 4
"""Conditions that are asked one by one; more are first asked at once."""
DEFAULT = "default"
"""What a decision names where no rule matches."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The rules that may match one kind of call, in the order of the file."""

    rules: tuple[CompiledRule, ...]
    groups: tuple[Conditions, ...]
    """Their conditions, to be asked at once."""
    names: frozenset[str]
    """The facts that these may read."""
    default: PolicyDecision
    """Where none of them matches."""
    by_name_only: frozenset[str]
    """Those that match for the name alone that an MCP server gave to its tool: they never loosen the default."""
    other_names: tuple[str, ...]
    """The names of the tool besides that for the model; a rule that reads ``tool`` is asked with each of them too."""

    def known(self, pending: Sequence[CompiledRule], facts: Evaluation) -> dict[int, Any]:
        """Return what is known of the conditions that were asked at once; the others are asked one by one."""
        known: dict[int, Any] = {}
        for group in self.groups if len(pending) > FEW else ():
            known.update(group.known(facts))
        return known


@dataclass(frozen=True, slots=True)
class Matches:
    """The rules that match one call."""

    rules: list[tuple[CompiledRule, dict[str, Any]]]
    """Each with the arguments that it changes; once more for each further name of the tool with which it matches."""
    failures: list[Failure]
    by_name_only: frozenset[str]
    """See ``Candidates``; and those that match with some of the tool's names but not with all."""


class LocalPolicy:
    """Decides by rules, in microseconds and without waiting; safe for any thread."""

    def __init__(
        self,
        rules: Sequence[CompiledRule],
        version: str,
        *,
        default: Verdict = Verdict.ALLOW,
        model_default: Verdict = Verdict.ALLOW,
        now_ms: Callable[[], int] = epoch_ms,
    ) -> None:
        self.rules = tuple(rules)
        self.version = version
        self.offers_sticky = any(rule.fields.sticky for rule in self.rules)
        self._now_ms = now_ms
        self._by_kind: dict[tuple[object, ...], Candidates] = {}
        self._grouped: dict[tuple[int, ...], tuple[Conditions, ...]] = {}
        self.defaults = {"tool": self._default(default), "model": self._default(model_default)}
        """What is decided where no rule matches, by point."""

    def _default(self, verdict: Verdict) -> PolicyDecision:
        reason = "" if verdict is Verdict.ALLOW else "No rule of the policy allows this call."
        return PolicyDecision(verdict=verdict, rule=DEFAULT, reason=reason, version=self.version)

    def decide(self, facts: CallFacts, at_ms: int | None = None) -> PolicyDecision:
        """Return what becomes of the call at a time, in ms since 1970; by default now.

        What a condition that fails counts as, ``vote_of`` says, and the decision.
        """
        kind = fixed_facts(facts)
        candidates = self._by_kind.get(kind) or self._candidates(kind, facts)
        if not candidates.rules and not facts.labels:
            return candidates.default
        found = self._matches(candidates, facts, self._now_ms() if at_ms is None else at_ms)
        if found.rules or found.failures:
            return combined(facts, found.rules, found.failures, candidates.default, found.by_name_only)
        return replace(candidates.default, seen=seen(facts)) if facts.labels else candidates.default

    def matching(self, facts: CallFacts, at_ms: int) -> dict[str, bool]:
        """Return the names of all rules that match a call, each with whether that is so since its condition failed."""
        kind = fixed_facts(facts)
        candidates = self._by_kind.get(kind) or self._candidates(kind, facts)
        found = self._matches(candidates, facts, at_ms)
        counted = (failure.rule.name for failure in found.failures if vote_of(failure, facts) is not None)
        return {rule.name: False for rule, _ in found.rules} | dict.fromkeys(counted, True)

    def _candidates(self, kind: tuple[object, ...], facts: CallFacts) -> Candidates:
        rules = tuple(rule for rule in self.rules if rule.may_match(facts))
        groups = self._groups([rule.condition for rule in rules if rule.condition is not None])
        default = self.defaults[facts.point]
        if facts.identity:
            default = replace(default, identity=facts.identity)
        if any(rule.names_source(facts) for rule in self.rules):
            sources = filter(None, (facts.name, facts.identity))
            default = replace(default, labels=tuple(f"{READ_FROM}{source}" for source in sources))
        names = frozenset[str]().union(*(rule.names for rule in rules))
        by_name_only = frozenset(one.name for one in rules if not one.is_about(facts))
        found = Candidates(rules, groups, names, default, by_name_only, facts.tool_names[1:])
        if len(self._by_kind) >= MAX_KINDS:
            self._by_kind.clear()
            self._grouped.clear()
        self._by_kind[kind] = found
        return found

    def _groups(self, conditions: Sequence[Condition]) -> tuple[Conditions, ...]:
        """Return these conditions as groups; the same conditions, for another kind of call, are compiled once."""
        if len(conditions) <= FEW:
            return ()
        key = tuple(map(id, conditions))
        found = self._grouped.get(key)
        if found is None:
            bounded = [one for one in conditions if one.is_bounded]
            found = tuple(Conditions(bounded[at : at + MAX_PARTS]) for at in range(0, len(bounded), MAX_PARTS))
            self._grouped[key] = found
        return found

    def _matches(self, candidates: Candidates, facts: CallFacts, at_ms: int) -> Matches:
        applying = [rule for rule in candidates.rules if rule.is_fixed or rule.applies(facts, at_ms)]
        evaluation = Evaluation(facts, at_ms, candidates.names)
        pending = [rule for rule in applying if rule.condition is not None]
        found = _asked(applying, evaluation, candidates.known(pending, evaluation), candidates.by_name_only)
        about_tool = [rule for rule in applying if TOOL in rule.names] if candidates.other_names else ()
        if not about_tool:
            return found
        others = [Evaluation(facts, at_ms, candidates.names, name) for name in candidates.other_names]
        by_name = [found, *(_asked(about_tool, one, {}, candidates.by_name_only) for one in others)]
        return _joined(by_name, about_tool, facts)


def _asked(
    applying: Iterable[CompiledRule], evaluation: Evaluation, known: Mapping[int, Any], by_name_only: frozenset[str]
) -> Matches:
    """Return which of these rules match; ``known``: the values of conditions that were asked at once."""
    found = Matches([], [], by_name_only)
    for rule in applying:
        condition = rule.condition
        value = None if condition is None else known.get(id(condition))
        if value is False:
            continue
        try:
            if condition is None or value is True or condition.holds(evaluation):
                found.rules.append((rule, rule.changes(evaluation)))
        except ConditionFailed as error:
            found.failures.append(Failure(rule, str(error)))
    return found


def _joined(by_name: Sequence[Matches], about_tool: Iterable[CompiledRule], facts: CallFacts) -> Matches:
    """Return what the rules say with any of the tool's names: a server chose some of them.

    So a rule tightens with one of the names, and loosens with all of them.
    """
    rules = [one for found in by_name for one in found.rules]
    failures = [one for found in by_name for one in found.failures]
    counted = [failure.rule.name for failure in failures if vote_of(failure, facts) is not None]
    times = Counter([*(rule.name for rule, _ in rules), *counted])
    in_part = (rule.name for rule in about_tool if times[rule.name] < len(by_name))
    return Matches(rules, failures, by_name[0].by_name_only.union(in_part))
