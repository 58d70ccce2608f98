"""Schemas that come from outside: checked before they are used, and never able to reach out or run away."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from config.definitions.schemas.json_schema import MAX_VALUES, SchemaRefused, check_schema, compiled, schema_errors
from tests.hostile_schemas import HEAVY, LETTERS, MIXED, OUTWARD, PATTERNS

DOUBLING = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)} | {"a40": {}}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "objct"}, "not a JSON Schema at type"),
        ({"$ref": "http://127.0.0.1:1/x"}, "is not local"),
        ({"$ref": "file:///etc/passwd"}, "is not local"),
        ({"$ref": "//host/x"}, "is not local"),
        ({"$dynamicRef": "#x"}, r"\$dynamicRef"),
        ({"properties": {"a": {"$id": "http://h/", "$ref": "#/x"}}}, r"\$id"),
        ({"$defs": {"a": {"$anchor": "a"}}, "$ref": "#a"}, "is not local"),
        ({"$ref": "#/$defs/nope"}, "does not exist"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, "refers to itself"),
        ({"$ref": "#/$defs/a0", "$defs": DOUBLING}, "multiply"),
        ({"pattern": "(?=x)"}, "not a JSON Schema at pattern"),
        ({"$schema": "http://example.org/mine"}, "draft/2020-12"),
        ({"description": "x" * 70_000}, "65,536"),
        ({"default": {1, 2}}, "plain JSON"),
    ],
)
def test_a_schema_that_could_hurt_is_refused(schema, words):
    with pytest.raises(SchemaRefused, match=words):
        check_schema(schema)


def test_a_schema_nested_too_deeply_is_refused():
    schema: dict = {}
    for _ in range(5000):
        schema = {"not": schema}

    with pytest.raises(SchemaRefused, match="levels deep"):
        check_schema(schema)


def test_a_schema_that_descends_with_each_step_may_refer_to_itself():
    schema = {"type": "object", "properties": {"child": {"$ref": "#"}}}

    check_schema(schema)

    assert schema_errors(schema, {"child": {"child": 4}}) == ['child.child: 4 is not of type "object"']


def test_an_anchor_changes_nothing():
    schema = {"$defs": {"a": {"$anchor": "a", "type": "integer"}}, "properties": {"n": {"$ref": "#/$defs/a"}}}

    check_schema(schema)

    assert schema_errors(schema, {"n": 1}) == []
    assert schema_errors(schema, {"n": "x"}) == ['n: "x" is not of type "integer"']


def test_a_property_may_be_called_like_a_keyword():
    check_schema({"properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}}})


def test_problems_name_the_place_and_are_few():
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}}

    errors = schema_errors(schema, {"a": list("abcdefgh")})

    assert errors[0] == 'a[0]: "a" is not of type "integer"'
    assert len(errors) == 5


def test_problems_of_very_many_values_are_not_named():
    schema = {"properties": {"a": {"uniqueItems": True}}}

    assert schema_errors(schema, {"a": list(range(MAX_VALUES + 1))}) == []
    assert schema_errors(schema, {"a": [0] * MAX_VALUES}) == [
        "there are more than 50,000 values, too many to name what does not fit"
    ]
    assert "non-unique" in schema_errors(schema, {"a": [0] * 10})[0]


def test_a_schema_is_compiled_once():
    assert compiled({"type": "string"}) is compiled({"type": "string"})


def test_a_pattern_takes_linear_time():
    assert schema_errors({"pattern": r"^(a+)+$"}, "a" * 50_000 + "!")


MANY_TIMES_THE_BAR_S = 2.0
"""CPU time; the bar is 0.1 s. What is not limited takes minutes, or all memory."""


@pytest.mark.parametrize("name", OUTWARD)
def test_a_schema_that_reaches_out_or_grows_is_refused(name: str) -> None:
    began = time.thread_time()

    with pytest.raises(SchemaRefused) as caught:
        check_schema(OUTWARD[name])

    assert time.thread_time() - began < MANY_TIMES_THE_BAR_S
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("keyword", ["pattern", "patternProperties", "propertyNames"])
@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: ascii(pattern)[:30])
def test_a_pattern_is_refused_or_applied_in_linear_time(keyword: str, pattern: str) -> None:
    schemas: dict[str, Any] = {
        "pattern": {"pattern": pattern},
        "patternProperties": {"patternProperties": {pattern: {"type": "integer"}}},
        "propertyNames": {"propertyNames": {"pattern": pattern}},
    }
    schema = schemas[keyword]
    began = time.thread_time()

    for text in (LETTERS, MIXED):
        try:
            check_schema(schema)
        except SchemaRefused:
            continue
        schema_errors(schema, text if keyword == "pattern" else {text: "x"})

    assert time.thread_time() - began < MANY_TIMES_THE_BAR_S


@pytest.mark.parametrize("name", HEAVY)
def test_data_is_checked_against_a_schema_in_little_time(name: str) -> None:
    schema, make = HEAVY[name]
    data = make()
    began = time.thread_time()

    check_schema(schema)
    errors = schema_errors(schema, data)

    assert time.thread_time() - began < MANY_TIMES_THE_BAR_S
    assert len(errors) <= 5
    assert all(len(sentence) < 500 and re.search(r"\w", sentence) for sentence in errors)


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"^[a-z0-9_-]{1,64}$", r"^\w{1,255}$", r"^.{1,400}$", r"^[a-z]{1,5000}$", r"^[^\x00]{1,256}$"),
        *(r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$", r"^[^@\s]{1,64}@[^@\s]{1,250}$"),
    ],
)
def test_a_usual_pattern_is_taken(pattern: str) -> None:
    check_schema({"pattern": pattern})
    schema_errors({"pattern": pattern}, "2026-01-01T00:00:00Z")


def test_a_small_pattern_does_not_limit_the_text_beside_it() -> None:
    schema = {"properties": {"path": {"pattern": r"^[\w./-]{1,64}$"}, "text": {"type": "string"}}}

    assert schema_errors(schema, {"path": "a.txt", "text": "x" * 1_000_000}) == []


def test_several_errors_are_named_of_little_data_and_one_of_much() -> None:
    schema = {"items": {"type": "integer"}}

    assert len(schema_errors(schema, ["x"] * 1000)) == 5
    assert schema_errors(schema, ["x"] * 20_000) == ['[0]: "x" is not of type "integer"']
