"""How much work a schema's patterns may cause is estimated from above, by the texts that meet them."""

from __future__ import annotations

from typing import Any

import pytest

from config.definitions.schemas.json_schema import check_schema, schema_errors
from config.definitions.schemas.schema_work import MAX_PLACES, MAX_STEPS, SchemaWork, places
from tests.hostile_schemas import HEAVY, sum_of

MANY = {"pattern": "[ab]*a[ab]{500}c"}
LONG = "ab" * 5000
NODE = {"properties": {"k": MANY, "below": {"items": {"$ref": "#/$defs/node"}}}}


@pytest.mark.parametrize(
    ("pattern", "least"),
    [
        ("abc", 3),
        ("[a-z]{100}", 100),
        ("[a-z]{2,100}", 100),
        ("[a-z]{100,}", 100),
        ("(ab){100}", 200),
        ("((a{10}){10}){10}", 1000),
        ("a{10}{10}", 100),
        ("(|){100}", 100),
        ("(){100}", 100),
        (r"\p{L}{100}", 100),
        (r"\u0041{100}", 100),
        ("[]a{100}]", 100),
        ("[^]a{100}]", 100),
        (r"[\]a]{100}", 100),
        ("a{ 100 }", 100),
        ("a{1,99999999999999999999}", 99_999_999),
        ("(a", 2),
        ("a)", 1),
    ],
)
def test_places_are_at_least_as_many_as_there_are(pattern: str, least: int) -> None:
    assert places(pattern) >= least


@pytest.mark.parametrize("pattern", ["^[a-z]{1,5000}$", r"^\w{1,255}$", r"^[\w./-]+$", "^.{1,400}$", r"^\d*$"])
def test_one_set_from_beginning_to_end_is_tried_at_one_place(pattern: str) -> None:
    assert places(pattern) == 2


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        (MANY, LONG),
        ({"items": MANY}, ["ab" * 5] * 1000),
        ({"prefixItems": [True, MANY]}, [1, LONG]),
        ({"contains": MANY}, [LONG]),
        ({"unevaluatedItems": MANY}, [LONG]),
        ({"properties": {"a": MANY}}, {"a": LONG}),
        ({"additionalProperties": MANY}, {"a": LONG}),
        ({"unevaluatedProperties": MANY}, {"a": LONG}),
        ({"patternProperties": {"^a": MANY}}, {"a": LONG}),
        ({"patternProperties": {MANY["pattern"]: True}}, {LONG: 1}),
        ({"propertyNames": MANY}, {LONG: 1}),
        *(({keyword: [MANY]}, LONG) for keyword in ("allOf", "anyOf", "oneOf")),
        *(({keyword: MANY}, LONG) for keyword in ("not", "if")),
        ({"if": True, "then": MANY}, LONG),
        ({"if": False, "else": MANY}, LONG),
        ({"dependentSchemas": {"a": {"properties": {"b": MANY}}}}, {"a": 1, "b": LONG}),
        ({"$ref": "#/$defs/a", "$defs": {"a": MANY}}, LONG),
        ({"$ref": "#/$defs/node", "$defs": {"node": NODE}}, {"below": [{"below": [{"k": LONG}]}]}),
        ({"allOf": [{"pattern": f"[ab]*a[ab]{{60}}{n}"} for n in range(10)]}, "ab" * 2000),
    ],
)
def test_text_that_meets_a_pattern_wherever_it_stands_is_too_much(schema: dict[str, Any], data: Any) -> None:
    check_schema(schema)

    (sentence,) = schema_errors(schema, data)

    assert "more text than the schema's patterns are applied to" in sentence
    assert "`maxLength`" in sentence, "the remedy"


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ({"properties": {"a": MANY, "b": {"type": "string"}}}, {"b": LONG * 20}),
        ({"properties": {"a": MANY}, "items": {"properties": {"b": {}}}}, [{"b": "x" * 10}] * (2 * MAX_STEPS)),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"items": {"$ref": "#/$defs/n"}}, "m": MANY}}, [[LONG] * 50] * 50),
        ({"pattern": r"\S"}, "x" * 1_000_000),
        ({"pattern": "^[a-z]{1,5000}$"}, "x" * 5000),
        ({"properties": {"pattern": {"type": "string"}}}, {"pattern": LONG * 20}),
    ],
)
def test_text_that_meets_none_or_a_small_one_is_not(schema: dict[str, Any], data: Any) -> None:
    check_schema(schema)

    assert schema_errors(schema, data) == []


TERMS = HEAVY["a union of itself whose leaf does not fit"][0]
ROWS = {"items": {"$ref": "#/$defs/row"}, "$defs": {"row": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("schema", "data", "message"),
    [
        (TERMS, sum_of(2, "x"), "is not valid under any of the schemas"),
        (TERMS, sum_of(8, "x"), "alternatives are nested too deeply"),
        (ROWS, [1] * 2000 + ["x"], '[2000]: "x" is not of type "integer"'),
    ],
)
def test_what_does_not_fit_is_named_where_that_takes_little_time(schema: Any, data: Any, message: str) -> None:
    (sentence,) = schema_errors(schema, data)

    assert message in sentence


def test_a_union_of_itself_accepts_what_fits() -> None:
    assert schema_errors(TERMS, sum_of(8, 1)) == []


def test_a_schema_whose_patterns_take_long_to_compile_is_refused() -> None:
    schema = {"allOf": [{"pattern": f"[a-z]{{5000}}{n}"} for n in range(20)]}

    assert SchemaWork(schema).weight > MAX_PLACES
    with pytest.raises(ValueError, match=r"100,\d+ places and the limit is 25,000; write `maxLength` instead"):
        check_schema(schema)
