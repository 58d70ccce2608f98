"""Expressions in CEL: checked when they are read, limited in time and memory when they are evaluated.

The library (Google's C++ implementation, docs/decisions) ends an expression after 10,000 iterations, matches regular
expressions in linear time, and refuses deep nesting. What it does not limit is the work of one iteration over large
values, of a pattern with many repeats, and of a search for one value in another, which ``_require_bounded`` does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from config.expressions.errors import ExpressionFailed, ExpressionRefused
from config.expressions.work import (
    MACRO,
    SEARCHED_AT_ONCE,
    has_search,
    nesting_of,
    positions_of,
    size_of,
    split_texts,
)

if TYPE_CHECKING:
    from cel_expr_python import cel

MAX_PATTERN_CHARS = 256
"""Characters of a pattern."""
MAX_WORK = 30_000_000
"""Characters and values that an expression may touch, as an upper bound: about 50 ms."""
MAX_ITERATIONS = 10_000
"""Iterations of one evaluation; the library's own limit."""
MAX_MACROS = 4

_CODE = re.compile(r"^[A-Z_]+: ")


class Language:
    """The names that expressions may use, each with its type; another name is refused when one is compiled."""

    def __init__(self, types_of: Callable[[Any], Mapping[str, Any]]) -> None:
        """``types_of``: returns the type of each name, from those of ``cel.Type``."""
        self._types_of = types_of
        self._environment: Any = None

    @property
    def environment(self) -> Any:
        """The library's environment; the library is imported when this is first read.

        Raises:
            ExpressionRefused: the library is not installed.
        """
        if self._environment is None:
            self._environment = self._made()
        return self._environment

    def _made(self) -> Any:
        try:
            from cel_expr_python import cel
        except ImportError as error:
            raise ExpressionRefused(
                "needs the package cel-expr-python, which is not installed; run ./callboard doctor."
            ) from error
        return cel.NewEnv(variables=dict(self._types_of(cel.Type)))

    def compile(self, source: str) -> cel.Expression:
        """Return the program of an expression.

        Raises:
            ExpressionRefused: it is not CEL, or has a name that is not declared.
        """
        compiler = self.environment
        try:
            return compiler.compile(source)
        except Exception as error:
            raise ExpressionRefused(f"is not CEL: {_sentence(error)}") from error


class Variables(Protocol):
    """The values of a language's names in one evaluation."""

    @property
    def activation(self) -> Any:
        """The values, converted for CEL."""

    @property
    def size(self) -> tuple[int, int]:
        """The items in the lists and mappings of what is large among them, and its size in characters."""


class Values:
    """The values of a language's names, all of which may be large; see ``Variables``."""

    def __init__(self, language: Language, values: Mapping[str, Any]) -> None:
        self._language = language
        self._values = values

    @property
    def activation(self) -> Any:
        return self._language.environment.Activation(dict(self._values))

    @property
    def size(self) -> tuple[int, int]:
        return size_of(self._values)


class Expression:
    """A compiled expression of a language."""

    def __init__(self, language: Language, source: str, *, is_boolean: bool = True) -> None:
        """Compile ``source``.

        Raises:
            ExpressionRefused: it does not compile, is no condition, may run long, or has an invalid pattern.
        """
        self.source = source
        self._language = language
        split = split_texts(source)
        bare = split.bare
        macros = [match[1] for match in MACRO.finditer(bare)]
        if len(macros) > MAX_MACROS or macros.count("map") > 1:
            raise ExpressionRefused(
                f"may run long: it has {len(macros)} of all, exists, exists_one, filter and map, and at most "
                f"{MAX_MACROS} are possible, one map among them; split the rule."
            )
        self._depth = nesting_of(bare)
        self._copies = 1 + bare.count("+")
        self._listed = bare.count(",")
        self._positions, self._searches = positions_of(bare, split.patterns), has_search(bare)
        self.is_bounded = not macros and self._copies == 1 and self._positions == 1 and not self._searches
        """Whether the work is linear in the size of the values."""
        self._program = language.compile(source)
        kind = self._program.return_type().name()
        if is_boolean and kind not in ("BOOL", "DYN"):
            raise ExpressionRefused(f"has to be true or false, and this is of the type {kind.lower()}.")
        for pattern in split.patterns:
            _require_pattern(language, pattern)

    def holds(self, variables: Variables) -> bool:
        """Return whether the expression is true of the values.

        Raises:
            ExpressionFailed: it fails for these values, is neither true nor false, or would run long.
        """
        value = self._value(variables)
        if value is True or value is False:
            return bool(value)
        raise ExpressionFailed(_failure(value))

    def constant(self) -> bool | None:
        """Return whether it is true or false where that depends on no value; None where it does."""
        value = self._program.eval(self._language.environment.Activation({})).value()
        return value if isinstance(value, bool) else None

    def result(self, variables: Variables) -> Any:
        """Return the expression's value as JSON data.

        Raises:
            ExpressionFailed: it fails for these values, or would run long.
        """
        self._require_bounded(variables)
        try:
            value = self._program.eval(variables.activation)
            kind, plain = value.type().name(), value.plain_value()
        except Exception as error:
            raise ExpressionFailed(_failure(error)) from error
        if kind == "ERROR":
            raise ExpressionFailed(_failure(plain))
        if not _is_json(plain):
            problem = "has a number beyond 64 bits, or what is no JSON"
            raise ExpressionFailed(f"its result, of the type {kind.lower()}, {problem}")
        return plain

    def _value(self, variables: Variables) -> Any:
        if not self.is_bounded:
            self._require_bounded(variables)
        try:
            return self._program.eval(variables.activation).value()
        except Exception as error:  # text that is no Unicode, a limit of the library
            raise ExpressionFailed(_failure(error)) from error

    def _require_bounded(self, variables: Variables) -> None:
        items, chars = variables.size
        rounds = min(MAX_ITERATIONS, (items + self._listed) ** self._depth)
        positions = max(self._positions, chars // SEARCHED_AT_ONCE if self._searches else 1)
        if rounds * chars * self._copies * positions > MAX_WORK:
            raise ExpressionFailed(f"it would run long: the values have {items:,} items and {chars:,} characters")


def _require_pattern(language: Language, literal: str) -> None:
    if len(literal) - 2 > MAX_PATTERN_CHARS:
        raise ExpressionRefused(f"has a pattern of more than {MAX_PATTERN_CHARS} characters; make two of it.")
    program = language.compile(f"''.matches({literal})")
    value = program.eval(language.environment.Activation({})).value()
    if not isinstance(value, bool):
        raise ExpressionRefused(f"has a pattern that cannot be used: {_failure(value)}.")


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
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, bool | int | str)
