"""Rules: what holds, what fails in place of being false, and which cannot be used."""

import time
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from config.expressions.errors import ExpressionFailed
from config.expressions.rules import WITHOUT_VALUE, Operator, Rule, Rules
from tests.config.expressions.variables import JSON, VARIABLES


def rule(field: str, operator: str, *value: Any) -> Rule:
    return Rule.model_validate({"field": field, "operator": operator} | ({"value": value[0]} if value else {}))


@pytest.mark.parametrize(
    ("field", "operator", "value", "holds"),
    [
        ("input.amount", ">", 100, True),
        ("input.amount", ">", "{{ variables.limit }}", True),
        ("input.amount", "<=", 120.0, True),
        ("input.name", "<", "B", True),
        ("input.amount", "==", 120.0, True),
        ("input.paid", "!=", False, True),
        ("input.note", "==", None, True),
        ("input.amount", "==", None, False),
        ("input.order", "==", {"id": "o-1", "items": 3}, True),
        ("input.order", "==", {"id": "o-1", "items": True}, False),
        ("input.lines[0].price", ">=", 2, False),
        ("input.tags", "contains", "red", True),
        ("input.name", "contains", '"A"', True),
        ("input.order", "contains", "items", True),
        ("input.order", "not_contains", "keys", True),
        ("input.name", "starts_with", "Ann", True),
        ("input.name", "ends_with", "n", False),
        ("nodes.charge.id", "in", [1, 7, "x"], True),
        ("nodes.charge.choice", "not_in", "{{ variables.names }}", True),
        ("input.amount", "in", [], False),
        ("input.name", "matches", "^A(n|x)+ ", True),
        ("input.name", "matches", "{{ 'A' | lower }}", False),
    ],
)
def test_a_rule_compares_a_value(field, operator, value, holds):
    assert rule(field, operator, value).holds(VARIABLES) is holds


@pytest.mark.parametrize(
    ("field", "holding"),
    [
        ("input.title", {"not_exists"}),
        ("item.price", {"not_exists"}),
        ("input.note", {"exists", "is_empty"}),
        ("nodes['look-up'].hits", {"exists", "is_empty"}),
        ("input.tags", {"exists", "not_empty"}),
    ],
)
def test_a_rule_looks_whether_there_is_a_value(field, holding):
    operators = {"exists", "not_exists"} if "not_exists" in holding else WITHOUT_VALUE

    assert {operator for operator in operators if rule(field, operator).holds(VARIABLES)} == holding


@pytest.mark.parametrize(
    ("field", "operator", "value", "problem"),
    [
        ("input.title", "==", "a", "`input.title` has no value: `input` has the fields amount"),
        ("input.title", "is_empty", None, "`input.title` has no value"),
        ("item.price", "<", 1, "there is no `item` here"),
        ("input.amount", "==", "{{ input.title }}", "`input.title` has no value"),
        ("input.amount", "==", "120", "`input.amount` is a number, which cannot be compared with a text"),
        ("input.paid", "!=", 1, "is true or false, which cannot be compared with a number"),
        ("input.name", ">", 1, "`input.name` is a text, which cannot be compared with a number"),
        ("input.note", ">", 1, "is null, which cannot be compared"),
        ("input.paid", ">", False, "cannot be compared"),
        ("input.tags", "<", ["z"], "cannot be compared"),
        ("input.amount", "contains", 1, "cannot be compared"),
        ("input.name", "contains", 1, "cannot be compared"),
        ("input.tags", "contains", 1, "cannot be compared"),
        ("input.amount", "in", "120", "write a list"),
        ("input.amount", "not_in", ["120"], "cannot be compared with a text"),
        ("input.amount", "starts_with", "1", "cannot be compared"),
        ("input.amount", "matches", "1", "a pattern matches texts"),
        ("input.name", "matches", "{{ input.name | replace('Ann', '(') }}", "has a pattern that cannot be used"),
        ("input.name", "matches", "{{ input.amount }}", "needs a pattern of at most 256 characters"),
        ("input.amount", "not_empty", None, "`input.amount` is a number, which is neither empty nor not"),
    ],
)
def test_what_cannot_be_compared_fails_and_is_not_false(field, operator, value, problem):
    with pytest.raises(ExpressionFailed) as failure:
        rule(field, operator, *(() if operator in WITHOUT_VALUE else (value,))).holds(VARIABLES)

    assert problem in str(failure.value)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"value": "{{ nodes.charge.id }}"}, "a `value` may not refer to `nodes`"),
        ({"value": [{"a": "<{{ nodes['charge'] | tojson }}>"}]}, "a `value` may not refer to `nodes`"),
        ({"value": "{{ [input, nodes] }}"}, "a `value` may not refer to `nodes`"),
        ({"value": "{% if nodes %}{% endif %}"}, "a `value` may not refer to `nodes`"),
        ({"value": "{{ range(3) }}"}, "its `value` calls the function `range`"),
        ({"operator": "="}, "Input should be '=='"),
        ({"operator": "eval"}, "Input should be '=='"),
        ({"field": "amount"}, "names `amount`, which is not there"),
        ({"field": "{{ input.a }}"}, "has to be a path"),
        ({"field": "input.__class__()"}, "has to be a path"),
        ({"operator": "exists"}, "the operator `exists` takes no `value`"),
        ({"operator": "matches", "value": "("}, "has a pattern that cannot be used"),
        ({"operator": "matches", "value": "a{1,1000000}"}, "has a pattern that cannot be used"),
        ({"operator": "matches", "value": r"(a)\1"}, "has a pattern that cannot be used"),
        ({"operator": "matches", "value": "a" * 257}, "at most 256 characters"),
        ({"operator": "matches", "value": 5}, "at most 256 characters"),
        ({"type": "regex"}, "Extra inputs are not permitted"),
    ],
)
def test_a_rule_that_cannot_be_used_is_refused(fields, problem):
    with pytest.raises(ValidationError) as refusal:
        Rule.model_validate({"field": "input.amount", "operator": "==", "value": 1} | fields)

    assert problem in str(refusal.value)


def test_nan_is_compared_with_nothing():
    for operator in ("==", "!=", ">", "in"):
        with pytest.raises(ExpressionFailed, match="no number"):
            rule("input.a", operator, [1] if operator == "in" else 1).holds({"input": {"a": float("nan")}})


def test_an_operator_needs_its_value():
    with pytest.raises(ValidationError, match="the operator `==` needs a `value`"):
        rule("input.amount", "==")


def test_a_value_that_looks_like_a_template_is_compared_as_text():
    variables = {"input": {"a": "{{ variables.secret }}", "b": "{{ variables.secret }}"}, "variables": {"secret": "x"}}

    assert rule("input.a", "==", "{{ input.b }}").holds(variables)
    assert not rule("input.a", "==", "{{ variables.secret }}").holds(variables)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*$", r"(\w+\s?)*$", "(.*)*x"])
def test_a_pattern_takes_linear_time(pattern):
    started = time.perf_counter()

    rule("input.a", "matches", pattern).holds({"input": {"a": "a" * 100_000 + "!\ud800"}})

    assert time.perf_counter() - started < 0.5


def test_several_rules_are_decided_in_their_order():
    has_title = {"field": "input.title", "operator": "exists"}
    is_long = {"field": "input.title", "operator": ">", "value": "a"}
    is_paid = {"field": "input.paid", "operator": "==", "value": True}
    cases: list[tuple[dict[str, Any], bool]] = [
        ({"all": [is_paid, is_paid]}, True),
        ({"all": [has_title, is_long]}, False),
        ({"any": [has_title, is_paid]}, True),
        ({"any": [is_paid, is_long]}, True),
        ({"any": [has_title]}, False),
    ]

    assert [Rules.model_validate(rules).holds(VARIABLES) for rules, _ in cases] == [holds for _, holds in cases]
    for rules in ({"any": [is_long, is_paid]}, {"all": [is_paid, is_long]}):
        with pytest.raises(ExpressionFailed, match=r"`input.title` has no value"):
            Rules.model_validate(rules).holds(VARIABLES)


@pytest.mark.parametrize("rules", [{}, {"all": []}, {"all": [], "any": []}, {"none": []}, {"any": [{}] * 21}])
def test_rules_are_a_list_of_all_or_any(rules):
    with pytest.raises(ValidationError):
        Rules.model_validate(rules)


def test_rules_name_the_nodes_that_they_look_at():
    looks = [{"field": field, "operator": "exists"} for field in ("nodes.a.x", "input.nodes", "nodes['b-c']")]

    assert Rules.model_validate({"any": looks}).nodes == frozenset({"a", "b-c"})
    assert rule("nodes", "exists").nodes is None


OPPOSITES = {"==": "!=", ">": "<=", "<": ">=", "contains": "not_contains", "in": "not_in", "is_empty": "not_empty"}


@given(left=JSON, right=JSON, operator=st.sampled_from(get_args(Operator)))
def test_whatever_is_compared_a_rule_holds_or_not_or_fails(left, right, operator):
    variables = {"input": {"a": left}, "variables": {"b": right}}
    value = () if operator in WITHOUT_VALUE else ("{{ variables.b }}",)

    holds = held(rule("input.a", operator, *value), variables)

    assert holds in (True, False, None)
    if operator in OPPOSITES:
        opposite = held(rule("input.a", OPPOSITES[operator], *value), variables)
        assert opposite is (None if holds is None else not holds)


def held(condition: Rule, variables: dict[str, Any]) -> bool | None:
    try:
        return condition.holds(variables)
    except ExpressionFailed:
        return None
