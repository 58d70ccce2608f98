"""What a decision of the local policy costs, with 50 rules of several kinds.

PYTHONPATH=. .venv/bin/python -m tests.bench.policy_cost [--rounds 3] [--quick] [--json]
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from agents.governance.policy.local import LocalPolicy
from agents.governance.policy.policy_yaml import read_policy
from config.effects import Effect
from config.identity.principal import Role
from config.policy_decision import CallFacts
from tests.bench.command import Effort, run, say
from tests.bench.report import Bar, Figure, Report

BAR_US = 50
RULES = 50
CALL = CallFacts(
    point="tool",
    name="pay",
    arguments={"amount": 120, "currency": "EUR", "to": ["ann@a.example", "bob@a.example"], "note": "x" * 500},
    effect=Effect.UNSAFE,
    labels=frozenset({"untrusted", "outward"}),
    principal="ann",
    roles=frozenset({Role.OPERATOR}),
    tenant="acme",
    agent_id="office",
    model="openai/gpt-5-mini",
    cost_usd=0.2,
    tokens=4000,
    steps=7,
)


def _rule(number: int, **more: Any) -> dict[str, Any]:
    return {"name": f"rule-{number}", "verdict": "block", "reason": "So it is."} | more


MIXED: list[dict[str, Any]] = [
    {"when": {"tools": ["pay", "refund_*"], "roles": ["viewer"]}},
    {"when": {"tools": ["pay"]}, "condition": "arguments.amount > 1000"},
    {"when": {"effects": ["unsafe"], "labels": ["sensitive"]}},
    {"when": {"spent": {"cost_usd": 5}}},
    {"when": {"tools": ["mail_*"]}, "condition": "arguments.to.exists(a, a.endsWith('@evil.example'))"},
]
KINDS: dict[str, list[dict[str, Any]]] = {
    "none": [],
    "of other tools, each with a condition": [
        {"when": {"tools": [f"tool_{n}"]}, "condition": f"arguments.amount > {1000 + n}"} for n in range(RULES)
    ],
    "of every kind": [
        MIXED[n % len(MIXED)] | ({"unless": {"principals": [f"user-{n}"]}} if n % 2 else {}) for n in range(RULES)
    ],
    "about each call, by labels": [{"when": {"labels": [f"label-{n}"]}} for n in range(RULES)],
    "about each call, each with a condition": [{"condition": f"arguments.amount > {1000 + n}"} for n in range(RULES)],
    "that all match": [{"verdict": "allow", "condition": f"arguments.amount < {1000 + n}"} for n in range(RULES)],
}
"""What the 50 rules are -> their fields; the last kind is the worst one, and has no bar."""


def measure(effort: Effort) -> Report:
    """Return the CPU time of one decision with each kind of rules."""
    count, figures = effort.pick(5000, 100), []
    for kind, rules in KINDS.items():
        policy = policy_of(rules)
        rounds = [decision_us(policy, count) for _ in range(effort.rounds)]
        say(f"{kind}: {min(rounds):.1f} µs")
        bar = None if kind == "that all match" else Bar(compares="figure", limit=BAR_US)
        name = f"{RULES if rules else 'no'} rules {kind if rules else 'of the deployment'}"
        figures.append(Figure(name=name, unit="µs", rounds=rounds, bar=bar))
    return Report(name="policy_cost", title="What a decision of the policy costs", figures=figures)


def policy_of(rules: list[dict[str, Any]]) -> LocalPolicy:
    """Return the policy of these rules, and the shipped ones."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.yaml"
        path.write_text(yaml.safe_dump({"rules": [_rule(number, **rule) for number, rule in enumerate(rules)]}))
        return read_policy([path])


def decision_us(policy: LocalPolicy, count: int) -> float:
    """Return the CPU time of one of ``count`` decisions about the same call."""
    policy.decide(CALL)  # finds the rules of this kind of call
    started = time.thread_time()
    for _ in range(count):
        policy.decide(CALL)
    return (time.thread_time() - started) / count * 1e6


if __name__ == "__main__":
    run(measure, __doc__)
