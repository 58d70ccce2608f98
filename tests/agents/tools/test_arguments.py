"""Arguments as a model writes them."""

import pytest

from agents.tool_errors import ArgumentsInvalid
from agents.tools.arguments import parse_arguments


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        (" \n", {}),
        ("{}", {}),
        ('{"a": 1, "b": [1.5, null, true]}', {"a": 1, "b": [1.5, None, True]}),
        ('{"a": "é \\ud83d\\ude00"}', {"a": "é 😀"}),
        ('{"a": "' + "[" * 500 + '"}', {"a": "[" * 500}),
        ('{"a\\\\": "\\"' + "[" * 500 + '", "b": "]"}', {"a\\": '"' + "[" * 500, "b": "]"}),
        ('{"a": "' + "[" * 200_000 + '", "b": []}', {"a": "[" * 200_000, "b": []}),
        ('{"lc": 1, "__class__": "x", "$ref": "http://h"}', {"lc": 1, "__class__": "x", "$ref": "http://h"}),
    ],
)
def test_reads_objects(text, value):
    assert parse_arguments(text) == value


AMBIGUOUS = [
    ("[]", "JSON object"),
    ('"x"', "JSON object"),
    ("null", "JSON object"),
    ("{", "not JSON"),
    ("{'a': 1}", "not JSON"),
    ('{"a": 1} x', "not JSON"),
    ("\ufeff{}", "not JSON"),
    ('{"a": 1, "a": 2}', "'a' is there twice"),
    ('{"a": {"b": 1, "b": 1}}', "'b' is there twice"),
    ('{"a": NaN}', "NaN is not JSON"),
    ('{"a": -Infinity}', "-Infinity is not JSON"),
    ('{"a": 1e400}', "too large"),
    ('{"a": ' + "9" * 4301 + "}", "4301 digits"),
    ('{"a": ' + "9" * 30 + "}", "64 bits"),
    ("[" * 100_000, "nested more than 64"),
    ('{"a":' * 65 + "1" + "}" * 65, "nested more than 64"),
    ('{"\\\\":' * 65 + "1" + "}" * 65, "nested more than 64"),
    ('{"a": "' + "x[" * 100_000 + '", "b": ' + "[" * 65, "nested more than 64"),
    ('{"a": "\\ud800"}', "surrogate"),
    ('{"a": "\ud800"}', "surrogate"),
    ('{"a": "' + "x" * 1024 * 1024 + '"}', "1,048,576"),
    ('{"a": "' + '\\"' * 300_000, "not JSON"),
]


@pytest.mark.parametrize(("text", "words"), AMBIGUOUS)
def test_what_two_readers_could_read_differently_is_refused(text, words):
    with pytest.raises(ArgumentsInvalid, match=words):
        parse_arguments(text)
