"""One decision from all rules that match a call: the strictest verdict, and what every one of them changes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from config.effects import Effect, Scope
from config.policy.compiled import CompiledRule
from config.policy.decision import CallFacts, PolicyDecision, Verdict

_RANKS = {verdict: rank for rank, verdict in enumerate(Verdict)}


@dataclass(frozen=True, slots=True)
class Failure:
    """A rule whose condition could not be evaluated."""

    rule: CompiledRule
    why: str


@dataclass(frozen=True, slots=True)
class _Vote:
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

    ``default``: the decision where none of these rules says something; and it counts beside those of
    ``by_name_only``, which are not meant for this tool, but for one whose name it has at its server.
    """
    votes = [_Vote(rule.verdict, rule.name, rule.fields.reason) for rule, _ in matched]
    votes += [vote for failure in failures if (vote := _vote_of(failure, facts)) is not None]
    changed, clash = _merged(matched)
    if clash is not None:
        votes.append(clash)
    labels = {label for rule, _ in matched for label in rule.fields.labels or ()}
    if not votes:
        return replace(default, reason=_with_notes(default.reason, facts, failures), seen=seen(facts))
    if all(vote.rule in by_name_only for vote in votes):
        votes.append(_Vote(default.verdict, default.rule, default.reason))
    first = max(votes, key=lambda vote: _RANKS[vote.verdict])
    limits = [rule.fields.timeout_s for rule, _ in matched if rule.fields.timeout_s is not None]
    return PolicyDecision(
        verdict=first.verdict,
        rule=first.rule,
        reason=_with_notes(first.reason, facts, failures),
        version=default.version,
        identity=default.identity,
        arguments={**facts.arguments, **changed} if changed else None,
        timeout_s=min(limits, default=None),
        labels=tuple(sorted(labels.union(default.labels))),
        seen=seen(facts),
        **_sticky(first.verdict, [rule for rule, _ in matched], failures),
    )


def _sticky(verdict: Verdict, matched: Sequence[CompiledRule], failures: Sequence[Failure]) -> dict[str, Any]:
    """Return for which later calls an approval may hold: those that every rule offers which requires one."""
    asking = [rule.fields for rule in matched if rule.verdict is Verdict.REQUIRE_APPROVAL]
    if verdict is not Verdict.REQUIRE_APPROVAL or all(one.sticky is None for one in asking):
        return {}
    offered = [set(one.sticky or ()) for one in asking] + [set[Scope]() for _ in failures]
    limits = [one.sticky_s for one in asking if one.sticky_s is not None]
    return {"sticky": tuple(sorted(set.intersection(*offered))), "sticky_s": min(limits, default=None)}


def seen(facts: CallFacts) -> tuple[str, ...]:
    """Return the labels of a call as a decision records them."""
    return tuple(sorted(facts.labels))


def _vote_of(failure: Failure, facts: CallFacts) -> _Vote | None:
    """Return what a failed condition counts as: nothing for a pure call, and for a rule that allows."""
    if facts.effect is Effect.PURE or failure.rule.verdict is Verdict.ALLOW:
        return None
    asks = failure.rule.verdict is Verdict.REQUIRE_APPROVAL
    reason = f"The rule could not be evaluated, and the call has an effect: {failure.why}."
    return _Vote(Verdict.REQUIRE_APPROVAL if asks else Verdict.BLOCK, failure.rule.name, reason)


def _with_notes(reason: str, facts: CallFacts, failures: Sequence[Failure]) -> str:
    """Return the reason with what could not be evaluated and was passed over."""
    passed = [failure for failure in failures if _vote_of(failure, facts) is None]
    notes = [f"Rule '{one.rule.name}' could not be evaluated and was passed over: {one.why}." for one in passed]
    return " ".join(part for part in (reason, *notes) if part)


def _merged(matched: Sequence[tuple[CompiledRule, dict[str, Any]]]) -> tuple[dict[str, Any], _Vote | None]:
    """Return all changes of arguments, and a block where two rules want different values of one argument."""
    changed: dict[str, Any] = {}
    by: dict[str, str] = {}
    for rule, changes in matched:
        for name, value in changes.items():
            if name in changed and changed[name] != value:
                reason = f"Rules '{by[name]}' and '{rule.name}' want different values of the argument '{name}'."
                return {}, _Vote(Verdict.BLOCK, rule.name, reason)
            changed[name], by[name] = value, rule.name
    return changed, None
