"""What a policy of a deployment may name."""

from typing import Any

import pytest

from agents.checkup.vocabulary import arguments_in


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ({"properties": {"a": {}}}, {"a"}),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"a"}),
        ({"additionalProperties": False}, set()),
        ({}, None),
        ({"properties": {"a": {}}, "additionalProperties": {"type": "string"}}, None),
        ({"properties": {"a": {}}, "anyOf": []}, None),
        ({"properties": {"a": {}}, "patternProperties": {"^x": {}}}, None),
    ],
)
def test_the_arguments_of_a_schema_are_known_unless_it_leaves_them_open(schema: Any, arguments: Any) -> None:
    assert arguments_in({"type": "object", **schema}) == arguments
