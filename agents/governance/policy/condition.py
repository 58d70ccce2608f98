"""A condition of a rule: an expression over the facts of a call."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from config.expressions.cel import Expression, Language
from config.expressions.work import size_of
from config.policy_decision import CallFacts

# --- the facts that it may use

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


def _types(kinds: Any) -> Mapping[str, Any]:
    """Return the type of each fact, from those of ``cel.Type``."""
    texts = ("tool", "identity", "model", "effect", "classification", "principal", "tenant", "agent", *_CONTEXT_FACTS)
    return {
        "arguments": kinds.Map(kinds.STRING, kinds.DYN),
        **dict.fromkeys(("labels", "roles"), kinds.List(kinds.STRING)),
        **dict.fromkeys(("cost_usd", "tokens", "steps"), kinds.DYN),  # compared with 1 and with 1.0
        "privileged": kinds.BOOL,
        "now": kinds.TIMESTAMP,
        **dict.fromkeys(texts, kinds.STRING),
    }


FACTS = Language(_types)
"""The facts with their types."""


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
            self._activation = FACTS.environment.Activation(variables)
        return self._activation

    @property
    def size(self) -> tuple[int, int]:
        """The items in the arguments' lists and mappings, and their size in characters."""
        if self._size is None:
            self._size = size_of(self._facts.arguments)
        return self._size


# --- the condition


MAX_PARTS = 40
"""Conditions that are asked at once; their text stays below the library's limit of 100,000 characters."""


class Condition(Expression):
    """A compiled condition; its facts are those of ``_READ``."""

    def __init__(self, source: str, *, is_boolean: bool = True) -> None:
        """Compile ``source``.

        Raises:
            ExpressionRefused: it does not compile, is no condition, may run long, or has an invalid pattern.
        """
        super().__init__(FACTS, source, is_boolean=is_boolean)
        self.names = names_in(source)
        """What it may read of the facts."""


class Conditions:
    """Several conditions as one program: asking all at once costs a fifth of asking each."""

    def __init__(self, parts: Sequence[Condition]) -> None:
        """``parts``: at most ``MAX_PARTS``, each with linear work."""
        self._parts = tuple(parts)
        self._program = FACTS.compile(f"[{', '.join(f'({part.source})' for part in parts)}]")

    def values(self, facts: Evaluation) -> dict[Condition, Any]:
        """Return each condition's value; None of each if one fails: asked one by one, each says what fails."""
        try:
            values = self._program.eval(facts.activation).plain_value()
        except Exception:  # text that is no Unicode, a limit of the library
            values = None
        if not isinstance(values, list):  # an error
            return dict.fromkeys(self._parts)
        return dict(zip(self._parts, values, strict=True))
