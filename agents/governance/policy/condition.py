"""A condition of a rule, in CEL: checked when the policy is read, limited in time and memory when it is asked.

The library (Google's C++ implementation, docs/decisions) ends a condition after 10,000 iterations, matches regular
expressions in linear time, and refuses deep nesting. What it does not limit is the work of one iteration over large
arguments, of a pattern with many repeats, and of a search for one argument in another, which ``_require_bounded`` does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from agents.governance.policy.errors import ConditionFailed, ConditionRefused
from agents.governance.policy.work import (
    MACRO,
    SEARCHED_AT_ONCE,
    has_search,
    nesting_of,
    positions_of,
    size_of,
    split_texts,
)
from config.policy_decision import CallFacts

if TYPE_CHECKING:
    from cel_expr_python import cel

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


# --- the condition


MAX_WORK = 30_000_000
"""Characters and values that a condition may touch, as an upper bound: about 50 ms."""
MAX_ITERATIONS = 10_000
"""Iterations of one evaluation; the library's own limit."""
MAX_MACROS = 4
MAX_PARTS = 40
"""Conditions that are asked at once; their text stays below the library's limit of 100,000 characters."""

_CODE = re.compile(r"^[A-Z_]+: ")


class Condition:
    """A compiled condition; its facts are those of ``_READ``."""

    def __init__(self, source: str, *, is_boolean: bool = True) -> None:
        """Compile ``source``.

        Raises:
            ConditionRefused: it does not compile, is no condition, may run long, or has an invalid pattern.
        """
        self.source = source
        self.names = names_in(source)
        """What it may read of the facts."""
        split = split_texts(source)
        bare = split.bare
        macros = [match[1] for match in MACRO.finditer(bare)]
        if len(macros) > MAX_MACROS or macros.count("map") > 1:
            raise ConditionRefused(
                f"may run long: it has {len(macros)} of all, exists, exists_one, filter and map, and at most "
                f"{MAX_MACROS} are possible, one map among them; split the rule."
            )
        self._depth = nesting_of(bare)
        self._copies = 1 + bare.count("+")
        self._listed = bare.count(",")
        self._positions, self._searches = positions_of(bare, split.patterns), has_search(bare)
        self.is_bounded = not macros and self._copies == 1 and self._positions == 1 and not self._searches
        """Whether the work is linear in the size of the arguments."""
        self._program = _compile(source)
        kind = self._program.return_type().name()
        if is_boolean and kind not in ("BOOL", "DYN"):
            raise ConditionRefused(f"has to be true or false, and this is of the type {kind.lower()}.")
        for pattern in split.patterns:
            _require_pattern(pattern)

    def holds(self, facts: Evaluation) -> bool:
        """Return whether the condition is true of the facts.

        Raises:
            ConditionFailed: it fails for these arguments, is neither true nor false, or would run long.
        """
        value = self._value(facts)
        if value is True or value is False:
            return bool(value)
        raise ConditionFailed(_failure(value))

    def without_facts(self) -> bool | None:
        """Return its value where that depends on no fact; None where it does."""
        value = self._program.eval(environment().Activation({})).value()
        return value if isinstance(value, bool) else None

    def result(self, facts: Evaluation) -> Any:
        """Return the expression's value as JSON data.

        Raises:
            ConditionFailed: it fails for these arguments, or would run long.
        """
        self._require_bounded(facts)
        try:
            value = self._program.eval(facts.activation)
            kind, plain = value.type().name(), value.plain_value()
        except Exception as error:
            raise ConditionFailed(_failure(error)) from error
        if kind == "ERROR" or not _is_json(plain):
            raise ConditionFailed(_failure(plain if kind == "ERROR" else f"its result is of the type {kind.lower()}"))
        return plain

    def _value(self, facts: Evaluation) -> Any:
        if not self.is_bounded:
            self._require_bounded(facts)
        try:
            return self._program.eval(facts.activation).value()
        except Exception as error:  # text that is no Unicode, a limit of the library
            raise ConditionFailed(_failure(error)) from error

    def _require_bounded(self, facts: Evaluation) -> None:
        items, chars = facts.size
        rounds = min(MAX_ITERATIONS, (items + self._listed) ** self._depth)
        positions = max(self._positions, chars // SEARCHED_AT_ONCE if self._searches else 1)
        if rounds * chars * self._copies * positions > MAX_WORK:
            raise ConditionFailed(f"it would run long: the arguments have {items:,} items and {chars:,} characters")


class Conditions:
    """Several conditions as one program: asking all at once costs a fifth of asking each."""

    def __init__(self, parts: Sequence[Condition]) -> None:
        """``parts``: at most ``MAX_PARTS``, each with linear work."""
        self._parts = tuple(parts)
        self._program = _compile(f"[{', '.join(f'({part.source})' for part in parts)}]")

    def values(self, facts: Evaluation) -> dict[Condition, Any]:
        """Return each condition's value; None of each if one fails: asked one by one, each says what fails."""
        try:
            values = self._program.eval(facts.activation).plain_value()
        except Exception:  # text that is no Unicode, a limit of the library
            values = None
        if not isinstance(values, list):  # an error
            return dict.fromkeys(self._parts)
        return dict(zip(self._parts, values, strict=True))


# --- CEL


def _compile(source: str) -> cel.Expression:
    compiler = environment()
    try:
        return compiler.compile(source)
    except Exception as error:
        raise ConditionRefused(f"is not CEL: {_sentence(error)}") from error


def _require_pattern(literal: str) -> None:
    value = _compile(f"''.matches({literal})").eval(environment().Activation({})).value()
    if not isinstance(value, bool):
        raise ConditionRefused(f"has a pattern that cannot be used: {_failure(value)}.")


def _sentence(error: object) -> str:
    """Return what CEL says of a mistake, in one line without its codes and drawing."""
    first = str(error).split("\n")[0].replace(" [INVALID_ARGUMENT]", "")
    first = _CODE.sub("", first).replace("ERROR: <input>:", "at ").replace(" (in container '')", "")
    return first[:300].rstrip(".") + "."


def _failure(value: object) -> str:
    if not isinstance(value, str | Exception):
        return f"it is neither true nor false but of the type {type(value).__name__}"
    return _sentence(value).rstrip(".") if _CODE.match(str(value)) else f"it is not true or false: {_sentence(value)}"


def _is_json(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_json, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(item) for key, item in value.items())
    return value is None or isinstance(value, bool | int | float | str)
