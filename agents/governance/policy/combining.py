"""One decision from all rules that match a call: the strictest verdict, and what every one of them changes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agents.governance.policy.compiled import CompiledRule
from config.effects import Effect, Scope
from config.policy_decision import CallFacts, PolicyDecision, Verdict

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
