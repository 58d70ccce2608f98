"""The policy of this deployment's own files: the strictest rule that matches a call decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

from agents.governance.policy.compiled import CompiledRule, ToolNames
from agents.governance.policy.condition import MAX_PARTS, TOOL, Condition, Conditions, Evaluation
from config.clock import epoch_ms
from config.effects import Effect, Scope
from config.expressions.errors import ExpressionFailed
from config.policy_decision import READ_FROM, CallFacts, PolicyDecision, Verdict

DEFAULT = "default"
"""What a decision names where no rule matches."""


@dataclass(frozen=True, slots=True)
class Matches:
    """The rules that match one call."""

    rules: list[tuple[CompiledRule, dict[str, Any]]]
    """Each with the arguments that it changes; once more for each further name of the tool with which it matches."""
    failures: list[Failure]


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
        self.defaults = {"tool": self._default(default), "model": self._default(model_default)}
        """What is decided where no rule matches, by point."""
        self._now_ms = now_ms
        self._by_point = {point: [rule for rule in self.rules if rule.fields.point == point] for point in self.defaults}
        self._facts = frozenset[str]().union(*(rule.names for rule in self.rules))
        self._sources = ToolNames([name for rule in self.rules for name in rule.sources])
        self._batches = _batches(self.rules)

    def _default(self, verdict: Verdict) -> PolicyDecision:
        reason = "" if verdict is Verdict.ALLOW else "No rule of the policy allows this call."
        return PolicyDecision(verdict=verdict, rule=DEFAULT, reason=reason, version=self.version)

    def decide(self, facts: CallFacts, at_ms: int | None = None) -> PolicyDecision:
        """Return what becomes of the call at a time, in ms since 1970; by default now.

        What a condition that fails counts as, ``vote_of`` says, and the decision.
        """
        matches, by_name_only = self._matches(facts, self._now_ms() if at_ms is None else at_ms)
        default = self._default_of(facts)
        if matches.rules or matches.failures:
            return combined(facts, matches.rules, matches.failures, default, by_name_only)
        return replace(default, seen=seen(facts)) if facts.labels else default

    def matching(self, facts: CallFacts, at_ms: int) -> dict[str, bool]:
        """Return the names of all rules that match a call, each with whether that is so since its condition failed."""
        matches, _ = self._matches(facts, at_ms)
        return {rule.name: False for rule, _ in matches.rules} | dict.fromkeys(_counted(matches, facts), True)

    def _default_of(self, facts: CallFacts) -> PolicyDecision:
        """Return the decision about a call that no rule matches, with the labels that name its tool as a source."""
        default = self.defaults[facts.point]
        if facts.identity:
            default = replace(default, identity=facts.identity)
        if facts.point != "tool" or not self._sources.list_tool(facts, of_names=True):
            return default
        return replace(default, labels=tuple(f"{READ_FROM}{name}" for name in (facts.name, facts.identity) if name))

    def _matches(self, facts: CallFacts, at_ms: int) -> tuple[Matches, AbstractSet[str]]:
        """Return what matches a call, and the names of the rules that match without meaning this very tool.

        These match by a name alone that an MCP server gave to its tool, or with some of the tool's names but not with
        all: they never loosen the default.
        """
        applying = [rule for rule in self._by_point[facts.point] if rule.applies(facts, at_ms)]
        matches = self._asked(applying, Evaluation(facts, at_ms, self._facts))
        if not facts.identity:
            return matches, frozenset()
        about_tool = [rule for rule in applying if TOOL in rule.names]
        names = facts.tool_names[1:] if about_tool else ()
        others = [self._asked(about_tool, Evaluation(facts, at_ms, self._facts, name)) for name in names]
        joined = _joined([matches, *others])
        times = Counter([*(rule.name for rule, _ in joined.rules), *_counted(joined, facts)])
        in_part = {rule.name for rule in about_tool if times[rule.name] < len(names) + 1}
        return joined, in_part.union(rule.name for rule in applying if not rule.means(facts))

    def _asked(self, rules: Iterable[CompiledRule], evaluation: Evaluation) -> Matches:
        """Return which of these rules match."""
        matches = Matches([], [])
        values: dict[Condition, Any] = {}
        for rule in rules:
            try:
                if rule.condition is None or self._holds(rule.condition, evaluation, values):
                    matches.rules.append((rule, rule.changes(evaluation)))
            except ExpressionFailed as error:
                matches.failures.append(Failure(rule, str(error)))
        return matches

    def _holds(self, condition: Condition, evaluation: Evaluation, values: dict[Condition, Any]) -> bool:
        """Return whether a condition is true; ``values``: those of the conditions that were asked at once so far."""
        batch = self._batches.get(condition)
        if batch is not None and condition not in values:
            values.update(batch.values(evaluation))
        value = values.get(condition)
        return value if isinstance(value, bool) else condition.holds(evaluation)


def _batches(rules: Iterable[CompiledRule]) -> Mapping[Condition, Conditions]:
    """Return the conditions that are asked at once: those of rules with the same ``when`` and ``unless``."""
    alike: dict[object, list[Condition]] = {}
    for rule in rules:
        if rule.condition is not None and rule.condition.is_bounded:
            alike.setdefault((rule.fields.point, rule.fields.when, rule.fields.unless), []).append(rule.condition)
    parts = [some[at : at + MAX_PARTS] for some in alike.values() for at in range(0, len(some), MAX_PARTS)]
    return {condition: batch for some in parts if len(some) > 1 for batch in [Conditions(some)] for condition in some}


def _joined(by_name: Sequence[Matches]) -> Matches:
    """Return what the rules say with any of the tool's names, of which a server chose some."""
    rules = [pair for matches in by_name for pair in matches.rules]
    return Matches(rules, [failure for matches in by_name for failure in matches.failures])


def _counted(matches: Matches, facts: CallFacts) -> list[str]:
    """Return the names of the rules that count as a match since their condition failed."""
    return [failure.rule.name for failure in matches.failures if vote_of(failure, facts) is not None]


# --- several rules


RANKS = {verdict: rank for rank, verdict in enumerate(Verdict)}
"""How strict each verdict is."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A rule whose condition could not be evaluated."""

    rule: CompiledRule
    why: str


@dataclass(frozen=True, slots=True)
class Vote:
    """What one rule says of a call."""

    verdict: Verdict
    rule: str
    reason: str


def combined(
    facts: CallFacts,
    matched: Sequence[tuple[CompiledRule, dict[str, Any]]],
    failures: Sequence[Failure],
    default: PolicyDecision,
    by_name_only: Collection[str] = (),
) -> PolicyDecision:
    """Return the strictest verdict with the changes of all ``matched`` rules; of equal ones the first in the file.

    A rule whose condition failed counts as ``vote_of`` says, and labels the call as if it matched.

    ``default``: the decision where none of these rules says something; and it counts beside those of
    ``by_name_only``, which are not meant for this tool, but for one whose name it has at its server.
    """
    votes = [Vote(rule.verdict, rule.name, rule.fields.reason) for rule, _ in matched]
    votes += [vote for failure in failures if (vote := vote_of(failure, facts)) is not None]
    changed, clash = _merged(matched)
    if clash is not None:
        votes.append(clash)
    rules = [*(rule for rule, _ in matched), *(failure.rule for failure in failures)]
    labels = tuple(sorted({label for rule in rules for label in rule.fields.labels or ()}.union(default.labels)))
    if not votes:
        return replace(default, reason=_with_notes(default.reason, facts, failures), labels=labels, seen=seen(facts))
    if all(vote.rule in by_name_only for vote in votes):
        votes.append(Vote(default.verdict, default.rule, default.reason))
    first = max(votes, key=lambda vote: RANKS[vote.verdict])
    limits = [rule.fields.timeout_s for rule, _ in matched if rule.fields.timeout_s is not None]
    return PolicyDecision(
        verdict=first.verdict,
        rule=first.rule,
        reason=_with_notes(first.reason, facts, failures),
        version=default.version,
        identity=default.identity,
        arguments={**facts.arguments, **changed} if changed else None,
        timeout_s=min(limits, default=None),
        labels=labels,
        seen=seen(facts),
        **_sticky(first.verdict, [rule for rule, _ in matched], failures),
    )


def _sticky(verdict: Verdict, matched: Sequence[CompiledRule], failures: Sequence[Failure]) -> dict[str, Any]:
    """Return for which later calls an approval may hold: those that every rule offers which requires one."""
    asking = [rule.fields for rule in matched if rule.verdict is Verdict.REQUIRE_APPROVAL]
    if verdict is not Verdict.REQUIRE_APPROVAL or all(fields.sticky is None for fields in asking):
        return {}
    offered = [set(fields.sticky or ()) for fields in asking] + [set[Scope]() for _ in failures]
    limits = [fields.sticky_s for fields in asking if fields.sticky_s is not None]
    return {"sticky": tuple(sorted(set.intersection(*offered))), "sticky_s": min(limits, default=None)}


def seen(facts: CallFacts) -> tuple[str, ...]:
    """Return the labels of a call as a decision records them."""
    return tuple(sorted(facts.labels))


def vote_of(failure: Failure, facts: CallFacts) -> Vote | None:
    """Return what a failed condition counts as, so that no argument lifts a rule; None where the rule does not match.

    A rule that blocks or halts blocks, one that requires an approval does, and one that constrains blocks unless the
    call is pure and reaches no other system. One that allows lifts nothing, so it does not match.
    """
    verdict, stays = failure.rule.verdict, facts.effect is Effect.PURE and not facts.leaves
    if verdict is Verdict.ALLOW or (verdict is Verdict.CONSTRAIN and stays):
        return None
    counts_as = verdict if verdict is Verdict.REQUIRE_APPROVAL else Verdict.BLOCK
    return Vote(counts_as, failure.rule.name, f"The rule could not be evaluated, so it counts as met: {failure.why}.")


def _with_notes(reason: str, facts: CallFacts, failures: Sequence[Failure]) -> str:
    """Return the reason with what could not be evaluated and was passed over."""
    passed = [failure for failure in failures if vote_of(failure, facts) is None]
    notes = [f"Rule '{entry.rule.name}' could not be evaluated and was passed over: {entry.why}." for entry in passed]
    return " ".join(part for part in (reason, *notes) if part)


def _merged(matched: Sequence[tuple[CompiledRule, dict[str, Any]]]) -> tuple[dict[str, Any], Vote | None]:
    """Return all changes of arguments, and a block where two rules want different values of one argument."""
    changed: dict[str, Any] = {}
    by: dict[str, str] = {}
    for rule, changes in matched:
        for name, value in changes.items():
            if name in changed and changed[name] != value:
                reason = f"{_who(by[name], rule.name)} different values of the argument '{name}'."
                return {}, Vote(Verdict.BLOCK, rule.name, reason)
            changed[name], by[name] = value, rule.name
    return changed, None


def _who(first: str, second: str) -> str:
    if first == second:
        return f"For the names of the tool, of which its MCP server chose some, rule '{first}' wants"
    return f"Rules '{first}' and '{second}' want"
