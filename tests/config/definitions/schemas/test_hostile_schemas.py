"""Schemas and data from outside are refused or applied in little time; `bench --only bad_inputs` prints the times."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from config.definitions.schemas.json_schema import SchemaRefused, check_schema, schema_errors
from tests.hostile_schemas import HEAVY, LETTERS, MIXED, OUTWARD, PATTERNS

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
