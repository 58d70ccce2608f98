"""References: paths that are read without attributes."""

import pytest

from config.expressions.errors import ExpressionFailed, ExpressionRefused
from config.expressions.references import nodes_of, reference_of
from tests.config.expressions.variables import VARIABLES


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("item", ("item",)),
        (" input.lines[0].price ", ("input", "lines", 0, "price")),
        ("nodes['look-up'].hits", ("nodes", "look-up", "hits")),
        ('input . a [ "b c" ]', ("input", "a", "b c")),
    ],
)
def test_a_path_has_keys_and_numbers(source, parts):
    reference = reference_of(source)

    assert (reference.parts, reference.is_whole) == (parts, True)
    assert reference_of(str(reference)).parts == parts


NO_PATHS = """
    amount input. input..a input[ input[-1] input[a] input[1.5] input[9999999999] input.a() input|a 1 'input' input.a+1
    input['a\\x62'] input.é {{input.a}}
""".split()


@pytest.mark.parametrize("source", [*NO_PATHS, "", "input a", "input.\0"])
def test_what_is_no_path_is_refused(source):
    with pytest.raises(ExpressionRefused):
        reference_of(source)


@pytest.mark.parametrize(
    "source", ["input.order.keys", "input.order.__class__", "input.name.upper", "input.tags.count"]
)
def test_attributes_are_not_read(source):
    with pytest.raises(ExpressionFailed, match="has no value"):
        reference_of(source).read(VARIABLES)


def test_a_sentence_lists_a_few_names_on_one_line():
    variables = {"input": {f"key {number:02}\n": number for number in range(30)}}

    with pytest.raises(ExpressionFailed) as failure:
        reference_of("input.other").read(variables)

    assert str(failure.value).startswith("`input.other` has no value: `input` has the fields key 00\\n, key 01\\n,")
    assert str(failure.value).endswith(", key 11\\n and 18 more")


def test_nodes_are_those_whose_ids_are_written_out():
    assert nodes_of(map(reference_of, ["nodes.a.x", "nodes['b']", "input.nodes.c"])) == frozenset("ab")
    assert nodes_of(map(reference_of, ["nodes.a.x", "nodes"])) is None
