"""What is suspicious about a policy that can be used."""

from __future__ import annotations

from config.policy.local import LocalPolicy


def warnings_of(policy: LocalPolicy) -> list[str]:
    """Return a sentence about each rule whose condition is the same for every call."""
    found = []
    for rule in policy.rules:
        value = rule.condition.without_facts() if rule.condition is not None else None
        if value is not None:
            matches = "always true, so leave it out" if value else "never true, so the rule never matches"
            found.append(f"{rule.file}:{rule.line}: rule '{rule.name}': its condition is {matches}.")
    return found
