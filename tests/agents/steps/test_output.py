"""A structured answer: with a code fence around it or without, and only as data that fits."""

from __future__ import annotations

import pytest

from agents.errors import OutputInvalid
from agents.steps.model_request import parse_output

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        ' {"a": 1}\n',
        '```json\n{"a": 1}\n```',
        '```\n{"a": 1}\n```',
        '```json\n{"a": 1}```',
        '\n ```json  \n\n{"a": 1}\n  ```  \n',
    ],
)
def test_the_data_is_found(text: str) -> None:
    assert parse_output(text, SCHEMA) == {"a": 1}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "```",
        "``````",
        "```json\n```",
        "```\n```",
        '```js\n{"a": 1}\n```',
        '```json\n{"a": 1}',
        '{"a": 1}\n```',
        '{"a": 1} and more',
        "\n" * 3000,
        "```json" + "\n" * 3000,
    ],
)
def test_anything_else_is_invalid(text: str) -> None:
    with pytest.raises(OutputInvalid, match="not JSON"):
        parse_output(text, SCHEMA)


def test_what_does_not_fit_says_where() -> None:
    with pytest.raises(OutputInvalid, match="a:"):
        parse_output('{"a": "x"}', SCHEMA)
