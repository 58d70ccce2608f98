"""The facts that a condition may use, with their types, and those of one call converted for CEL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from agents.governance.policy.errors import ConditionRefused
from agents.governance.policy.work import size_of
from config.policy_decision import CallFacts

_NAME = re.compile(r"[a-z_]+")

TOOL = "tool"
"""The fact that is one of the names of a call's tool; a condition is asked with each."""
CONTEXT = ("app_id", "environment", "initiator_id", "cost_center", "data_classification")
"""The fields of a golden context that a condition may use, with ``context.`` before them; empty where none is known."""


def _of_context(name: str) -> Callable[[CallFacts, int], str]:
    return lambda facts, _: str(getattr(facts.context, name, None) or "")


_READ: Mapping[str, Callable[[CallFacts, int], Any]] = {
    "arguments": lambda facts, _: dict(facts.arguments),
    TOOL: lambda facts, _: facts.name if facts.point == "tool" else "",
    "identity": lambda facts, _: facts.identity,
    "model": lambda facts, _: facts.model,
    "effect": lambda facts, _: str(facts.effect),
    "classification": lambda facts, _: str(facts.classification),
    "labels": lambda facts, _: list(facts.labels),
    "principal": lambda facts, _: facts.principal,
    "roles": lambda facts, _: [str(role) for role in facts.roles],
    "tenant": lambda facts, _: facts.tenant,
    "agent": lambda facts, _: facts.agent_id,
    "privileged": lambda facts, _: facts.is_privileged,
    **{f"context.{name}": _of_context(name) for name in CONTEXT},
    "cost_usd": lambda facts, _: facts.cost_usd,
    "tokens": lambda facts, _: facts.tokens,
    "steps": lambda facts, _: facts.steps,
    "now": lambda _, at_ms: datetime.fromtimestamp(at_ms / 1000, UTC),
}
"""What a condition may use, by name."""
_CONTEXT_FACTS = frozenset(name for name in _READ if name.startswith("context."))


def names_in(source: str) -> frozenset[str]:
    """Return the facts that a condition names, be it in a text or a comment."""
    named = frozenset(_READ).intersection(_NAME.findall(source))
    return named | _CONTEXT_FACTS if "context" in source else named


@lru_cache(maxsize=1)
def environment() -> Any:
    """Return the CEL environment with the names of ``_READ`` and their types; the library is imported here.

    Raises:
        ConditionRefused: the library is not installed.
    """
    try:
        from cel_expr_python import cel
    except ImportError as error:
        raise ConditionRefused(
            "needs the package cel-expr-python, which is not installed; run ./callboard doctor."
        ) from error
    kinds = cel.Type
    names: Mapping[str, Any] = {
        "arguments": kinds.Map(kinds.STRING, kinds.DYN),
        **dict.fromkeys(("labels", "roles"), kinds.List(kinds.STRING)),
        **dict.fromkeys(("cost_usd", "tokens", "steps"), kinds.DYN),  # compared with 1 and with 1.0
        "privileged": kinds.BOOL,
        "now": kinds.TIMESTAMP,
    }
    texts = ("tool", "identity", "model", "effect", "classification", "principal", "tenant", "agent", *_CONTEXT_FACTS)
    return cel.NewEnv(variables={**names, **dict.fromkeys(texts, kinds.STRING)})


class Evaluation:
    """The facts of one call, converted for CEL once and only where a condition asks."""

    def __init__(self, facts: CallFacts, at_ms: int, names: Iterable[str], tool_name: str | None = None) -> None:
        """``names``: the facts that the conditions may read; converting all takes longer than asking.

        ``tool_name``: which of the tool's names ``tool`` is; by default that for the model.
        """
        self._facts = facts
        self._tool_name = tool_name
        self._at_ms = at_ms
        self._names = names
        self._activation: Any = None
        self._size: tuple[int, int] | None = None

    @property
    def activation(self) -> Any:
        if self._activation is None:
            variables = {name: _READ[name](self._facts, self._at_ms) for name in self._names}
            if self._tool_name is not None:
                variables[TOOL] = self._tool_name
            self._activation = environment().Activation(variables)
        return self._activation

    @property
    def size(self) -> tuple[int, int]:
        """The items in the arguments' lists and mappings, and their size in characters."""
        if self._size is None:
            self._size = size_of(self._facts.arguments)
        return self._size
