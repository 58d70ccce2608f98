"""A dry run of a policy over calls that were made: which rule would decide what, and what would differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from agents.governance.policy.local import LocalPolicy
from config.policy_decision import TOOLS_OWN, CallFacts, PolicyDecision, Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class PastCall:
    """A call that was made, or refused, and what was decided about it then."""

    run_id: str
    number: int
    """Of the step in its run."""
    at_ms: int
    facts: CallFacts
    verdict: str | None
    """None where no policy was asked."""
    rule: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """A call about which the policy decides otherwise now."""

    call: PastCall
    now: PolicyDecision


@dataclass(kw_only=True, slots=True)
class DryRun:
    """What a policy would have decided."""

    calls: Counter[str] = field(default_factory=Counter)
    """By point: ``tool`` and ``model``."""
    matched: Counter[str] = field(default_factory=Counter)
    """By rule: the calls that it matches."""
    failed: Counter[str] = field(default_factory=Counter)
    """By rule: those of them that it matches since its condition fails."""
    decided: Counter[str] = field(default_factory=Counter)
    """By rule: the calls about which it decides."""
    differences: list[Difference] = field(default_factory=list)

    def remark(self, name: str, point: Literal["tool", "model"]) -> str:
        """Return what there is to say of a rule's matches, as words; mostly nothing."""
        if not self.calls[point]:
            return f"no call of a {point} to try it with"
        if not self.matched[name]:
            return "fits none of these calls"
        if self.failed[name]:
            return f"its condition fails for {self.failed[name]}"
        return "fits each of these calls" if self.matched[name] == self.calls[point] else ""


def dry_run(policy: LocalPolicy, calls: Iterable[PastCall]) -> DryRun:
    """Decide about each call as if it were made again at its time."""
    report = DryRun()
    for call in calls:
        report.calls[call.facts.point] += 1
        matching = policy.matching(call.facts, call.at_ms)
        report.matched.update(matching.keys())
        report.failed.update(name for name, has_failed in matching.items() if has_failed)
        now = policy.decide(call.facts, call.at_ms)
        report.decided[now.rule] += 1
        if _differs(call, now):
            report.differences.append(Difference(call=call, now=now))
    return report


def _differs(call: PastCall, now: PolicyDecision) -> bool:
    if call.verdict is None:
        return now.verdict is not Verdict.ALLOW
    if call.rule == TOOLS_OWN:
        return now.verdict is not Verdict.ALLOW
    if (call.verdict, now.verdict) == (Verdict.REQUIRE_APPROVAL, Verdict.CONSTRAIN):
        return call.rule != now.rule  # of a tool that requires an approval itself
    is_plain = call.verdict == now.verdict == Verdict.ALLOW
    return not is_plain and (call.verdict, call.rule) != (str(now.verdict), now.rule)
