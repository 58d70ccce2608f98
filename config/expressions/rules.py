"""Rules: conditions that are data, ``{field: input.amount, operator: ">", value: 100}``, alone or several of them.

What cannot be compared fails, so that no rule is false because a value is missing or of another kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator, model_validator

from config.expressions.cel import MAX_PATTERN_CHARS
from config.expressions.errors import ExpressionFailed, ExpressionRefused
from config.expressions.references import NODES, Reference, kind_of, nodes_of, reference_of
from config.expressions.templates import Template, render_data, templates_in
from config.text.patterns import PatternRefused, compiled, whole

MAX_RULES = 20
_SECTION = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)
Comparison = Literal["==", "!=", ">", ">=", "<", "<=", "in", "not_in", "contains", "not_contains"]
OfTexts = Literal["starts_with", "ends_with", "matches"]
OfField = Literal["exists", "not_exists", "is_empty", "not_empty"]
Operator = Literal[Comparison, OfTexts, OfField]
WITHOUT_VALUE = frozenset(get_args(OfField))
"""The operators that look at the field alone."""


class Rule(BaseModel):
    """A comparison of a value of the workflow with another."""

    model_config = _SECTION

    field: Annotated[str, Field(max_length=1000)]
    """The path of the value: ``input.amount``, ``nodes.charge.lines[0].price``, ``item``."""
    operator: Operator
    value: Any = None
    """What it is compared with: data whose texts are templates, which may not refer to ``nodes``."""
    _reference: Reference = PrivateAttr()
    _is_constant: bool = PrivateAttr()

    @field_validator("field")
    @classmethod
    def _is_path(cls, value: str) -> str:
        reference_of(value)
        return value

    @model_validator(mode="after")
    def _can_be_used(self) -> Rule:
        self._reference = reference_of(self.field)
        if (self.operator in WITHOUT_VALUE) == ("value" in self.model_fields_set):
            wants = "takes no `value`" if self.operator in WITHOUT_VALUE else "needs a `value`"
            raise ExpressionRefused(f"the operator `{self.operator}` {wants}.")
        texts = [_template(text) for _, text in templates_in(self.value)]
        self._is_constant = all(template.is_text for template in texts)
        if any(NODES in template.names for template in texts):
            raise ExpressionRefused(
                "a `value` may not refer to `nodes`: what a node returned would decide with what it is compared. "
                "Refer to `variables` or `input`, or write the condition in CEL."
            )
        if self.operator == "matches" and self._is_constant:
            _pattern(self.value, ExpressionRefused)
        return self

    @property
    def nodes(self) -> frozenset[str] | None:
        """The ids of the nodes to which it refers; None where all are meant."""
        return nodes_of([self._reference])

    def holds(self, variables: Mapping[str, Any]) -> bool:
        """Return whether it is true of the values of the names.

        Raises:
            ExpressionFailed: a value is missing, or the two cannot be compared.
        """
        if self.operator in ("exists", "not_exists"):
            return (self._reference.missing(variables) is None) == (self.operator == "exists")
        left = self._reference.read(variables)
        right = self.value if self._is_constant else render_data(self.value, variables)
        try:
            _require_number(left, right)
            return _OPERATORS[self.operator](left, right)
        except ExpressionFailed as error:
            problem = str(error)
        raise ExpressionFailed(f"`{self._reference}` {problem}")


class Rules(BaseModel):
    """Several rules of which all have to hold, or any; they are evaluated in their order, until that is decided."""

    model_config = _SECTION

    all: Annotated[tuple[Rule, ...], Field(min_length=1, max_length=MAX_RULES)] | None = None
    any: Annotated[tuple[Rule, ...], Field(min_length=1, max_length=MAX_RULES)] | None = None

    @model_validator(mode="after")
    def _are_of_akind_of(self) -> Rules:
        if (self.all is None) == (self.any is None):
            raise ExpressionRefused("write either `all:` or `any:` with a list of rules.")
        return self

    @property
    def nodes(self) -> frozenset[str] | None:
        """The ids of the nodes to which they refer; None where all are meant."""
        return nodes_of(rule._reference for rule in self.all or self.any or ())

    def holds(self, variables: Mapping[str, Any]) -> bool:
        """Return whether they hold for the values of the names.

        Raises:
            ExpressionFailed: one cannot be evaluated that has to be.
        """
        if self.all is not None:
            return all(rule.holds(variables) for rule in self.all)
        return any(rule.holds(variables) for rule in self.any or ())


def _template(source: str) -> Template:
    try:
        return Template(source)
    except ExpressionRefused as error:
        raise ExpressionRefused(f"its `value` {error}") from error


# --- operators


def _equal(left: Any, right: Any) -> bool:
    """Return whether two values are equal; null may be compared with all others."""
    if left is not None and right is not None and kind_of(left) != kind_of(right):
        raise _incomparable(left, right)
    return _same(left, right)


def _same(left: Any, right: Any) -> bool:
    """Return whether two values are the same JSON: true is not 1."""
    if kind_of(left) != kind_of(right):
        return False
    if isinstance(left, Mapping):
        return left.keys() == right.keys() and all(_same(item, right[key]) for key, item in left.items())
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Return the comparison of two numbers or two texts."""

    def decide(left: Any, right: Any) -> bool:
        if kind_of(left) != kind_of(right) or kind_of(left) not in ("a number", "a text"):
            raise _incomparable(left, right)
        return compare(left, right)

    return decide


def _contains(left: Any, right: Any) -> bool:
    """Return whether a text has another, a list an item, or a mapping a key."""
    if isinstance(left, list | tuple):
        return _in(right, left)
    if isinstance(right, str) and isinstance(left, str | Mapping):
        return right in left
    raise _incomparable(left, right)


def _in(left: Any, right: Any) -> bool:
    """Return whether a list has an item; one of another kind than all of its items cannot be compared with them."""
    if not isinstance(right, list | tuple):
        raise ExpressionFailed(f"cannot be looked for in {kind_of(right)}; write a list")
    if right and not any(kind_of(left) == kind_of(item) or None in (left, item) for item in right):
        raise _incomparable(left, right[0])
    return any(_same(left, item) for item in right)


def _of_texts(compare: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    def decide(left: Any, right: Any) -> bool:
        if not (isinstance(left, str) and isinstance(right, str)):
            raise _incomparable(left, right)
        return compare(left, right)

    return decide


def _matches(left: Any, right: Any) -> bool:
    if not isinstance(left, str):
        raise ExpressionFailed(f"is {kind_of(left)}, and a pattern matches texts")
    return _pattern(right, ExpressionFailed).search(whole(left)) is not None


def _pattern(value: Any, error: type[ExpressionFailed | ExpressionRefused]) -> Any:
    if not isinstance(value, str) or len(value) > MAX_PATTERN_CHARS:
        raise error(f"needs a pattern of at most {MAX_PATTERN_CHARS} characters as its `value`")
    try:
        return compiled(value)
    except PatternRefused as refused:
        raise error(f"has a pattern that cannot be used: {refused}") from None


def _is_empty(left: Any, _: Any) -> bool:
    if left is None or isinstance(left, str | list | tuple | Mapping):
        return not left
    raise ExpressionFailed(f"is {kind_of(left)}, which is neither empty nor not")


def _not(decide: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda left, right: not decide(left, right)


def _require_number(*values: Any) -> None:
    """Return if no value is NaN, which is neither equal to itself nor more or less."""
    if any(isinstance(value, float) and value != value for value in values):
        raise ExpressionFailed("cannot be compared: one of both is no number (NaN)")


def _incomparable(left: Any, right: Any) -> ExpressionFailed:
    return ExpressionFailed(f"is {kind_of(left)}, which cannot be compared with {kind_of(right)}")


_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": _equal,
    "!=": _not(_equal),
    ">": _ordered(lambda left, right: left > right),
    ">=": _ordered(lambda left, right: left >= right),
    "<": _ordered(lambda left, right: left < right),
    "<=": _ordered(lambda left, right: left <= right),
    "contains": _contains,
    "not_contains": _not(_contains),
    "starts_with": _of_texts(str.startswith),
    "ends_with": _of_texts(str.endswith),
    "in": _in,
    "not_in": _not(_in),
    "matches": _matches,
    "is_empty": _is_empty,
    "not_empty": _not(_is_empty),
}
