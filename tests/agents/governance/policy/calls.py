"""Calls about which the tests ask a policy."""

from typing import Any

from config.effects import Effect
from config.policy_decision import CallFacts


def call(name: str = "pay", /, **facts: Any) -> CallFacts:
    defaults: dict[str, Any] = {"arguments": {}, "effect": Effect.UNSAFE, "principal": "ann", "roles": frozenset()}
    defaults |= {"tenant": "acme", "agent_id": "office", "model": "demo/office"}
    return CallFacts(point="tool", name=name, **(defaults | facts))


def asked_model(**facts: Any) -> CallFacts:
    defaults: dict[str, Any] = {"arguments": {}, "principal": "ann", "roles": frozenset(), "tenant": "acme"}
    return CallFacts(point="model", name="openai/gpt", model="openai/gpt", agent_id="office", **(defaults | facts))
