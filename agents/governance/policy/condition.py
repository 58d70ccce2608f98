"""A condition of a rule, in CEL: checked when the policy is read, limited in time and memory when it is asked.

The library (Google's C++ implementation, docs/decisions) ends a condition after 10,000 iterations, matches regular
expressions in linear time, and refuses deep nesting. What it does not limit is the work of one iteration over large
arguments, of a pattern with many repeats, and of a search for one argument in another, which ``_require_bounded`` does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agents.governance.policy.errors import ConditionFailed, ConditionRefused
from agents.governance.policy.facts import Evaluation, environment, names_in
from agents.governance.policy.work import MACRO, SEARCHED_AT_ONCE, has_search, nesting_of, positions_of, split_texts

if TYPE_CHECKING:
    from cel_expr_python import cel

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
