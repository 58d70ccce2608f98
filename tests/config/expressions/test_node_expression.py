"""Expressions of workflows in CEL: their names, what they read, and that they end."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.expressions.errors import ExpressionFailed, ExpressionRefused
from config.expressions.node_expression import NodeExpression
from tests.config.expressions.variables import JSON, VARIABLES


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("input.amount > variables.limit && nodes.charge.choice == 'yes'", True),
        ("nodes['look-up'].hits.size() == 0 // nodes.other\n", True),
        ("has(input.title)", False),
        ("has(input.order.items) && !has(nodes.refund)", True),
        ("'red' in input.tags && 'name' in input", True),
        ("input.lines.exists(line, line.price == variables.limit - 98)", True),
        ("input.lines[1].price + 1", 3),
        ("input.lines.map(line, line.title)", ["pen", "cap"]),
        ("input.order == {'items': 3, 'id': 'o-1'}", True),
        (".nodes.charge.id + size(nodes)", 9),
        ("{'all': nodes}", {"all": VARIABLES["nodes"]}),
        ("input.note", None),
    ],
)
def test_an_expression_is_evaluated_with_the_names_of_a_workflow(source, value):
    assert NodeExpression(source, is_boolean=False).result(VARIABLES) == value


def test_item_index_total_and_result_are_names():
    variables = {"item": {"price": 2}, "index": 17, "total": 1.5, "result": "done"}

    assert NodeExpression("total + double(item.price) * 2.0", is_boolean=False).result(variables) == 5.5
    assert NodeExpression("index % 2 == 1 && result == 'done'").holds(variables)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("arguments.amount > 1", "undeclared reference to 'arguments"),
        ("node.charge.id == 1", "undeclared reference to 'node"),
        ("index == 'a'", "no matching overload"),
        ("nodes + 1", "no matching overload"),
        ("input.amount +", "is not CEL"),
        ("1 + 1", "of the type int"),
        ("{{ input.amount }} > 1", "is not CEL"),
        ("input.name.matches('a{1,1000000}')", "has a pattern that cannot be used"),
        ("input.l.map(x, x + x).map(x, x + x).size() > 1", "may run long"),
    ],
)
def test_an_expression_that_cannot_be_used_is_refused(source, problem):
    with pytest.raises(ExpressionRefused, match=problem.replace("{", r"\{")):
        NodeExpression(source)


@pytest.mark.parametrize(
    ("source", "variables", "problem"),
    [
        ("item.price > 1", VARIABLES, "item"),
        ("input.title == 'a'", VARIABLES, "Key not found in map"),
        ("input.name > 1", VARIABLES, "No matching overload"),
        ("input.name", VARIABLES, "not true or false"),
        ("input.a == 'a'", {"input": {"a": "\ud800"}}, "not true or false"),
        ("input.a > 1", {"input": {"a": 2**70}}, "out of range"),
        ("input.a.all(x, input.a.all(y, x + y >= 0))", {"input": {"a": [1] * 3000}}, "would run long"),
        ("input.a.matches('([ab]{30}a?){30}c')", {"input": {"a": "ab" * 250_000}}, "would run long"),
        ("input.a + input.a + input.a == 'x'", {"input": {"a": "x" * 20_000_000}}, "would run long"),
    ],
)
def test_an_expression_that_fails_says_why_soon(source, variables, problem):
    started = time.perf_counter()

    with pytest.raises(ExpressionFailed, match=problem):
        NodeExpression(source).holds(variables)

    assert time.perf_counter() - started < 1


@pytest.mark.parametrize(
    ("source", "names", "nodes"),
    [
        ("input.nodes.x == 1 && 'nodes.a' == \"nodes['b']\"", {"input"}, set()),
        ("input.l.filter(l, true)[0].nodes.a == 1", {"input"}, set()),
        ("nodes.a.x == nodes['b'].nodes.y", {"nodes"}, {"a", "b"}),
        ('has(nodes.a.x) && .nodes [ "c-d" ] . y == 1', {"nodes"}, {"a", "c-d"}),
        ("true // nodes.a it's\n && nodes.b.x == 1", {"nodes"}, {"b"}),
        ("nodes[input.which].x == 1", {"nodes", "input"}, None),
        ("nodes.all(node, node != '')", {"nodes"}, None),
        ("size(nodes) > 1", {"nodes"}, None),
        ("nodes['a\\u0062'].x == 1", {"nodes"}, None),
        ("nodes['''a'''].x == 1", {"nodes"}, None),
        ("nodes[r'a'].x == 1", {"nodes"}, None),
        ("input.l.exists(nodes, nodes == 1)", {"input", "nodes"}, None),
    ],
)
def test_an_expression_names_what_it_refers_to(source, names, nodes):
    expression = NodeExpression(source)

    assert (expression.names, expression.nodes) == (names, nodes)


def test_what_it_does_not_read_neither_limits_it_nor_costs_time():
    variables = {
        "input": {"a": 1, "long": [["x" * 1000]] * 20_000},
        "nodes": {"big": "x" * 10_000_000, "a": {"l": [1]}},
    }
    expression = NodeExpression("nodes.a.l.all(x, x == input.a)")
    expression.holds(variables)
    started = time.perf_counter()

    assert all(expression.holds(variables) for _ in range(100))

    assert time.perf_counter() - started < 0.5
    with pytest.raises(ExpressionFailed, match="would run long"):
        NodeExpression("nodes.all(id, id != input.a + 'x')").holds(variables)


PATHS = st.sampled_from(["input.a", "input.a.b", "input['a']", "input.a['b'].c", "input", "input.a[0]", "nodes.a.b"])


@given(paths=st.lists(PATHS, min_size=1, max_size=3), value=st.dictionaries(st.sampled_from("abc"), JSON, max_size=2))
def test_its_value_is_that_of_the_whole_data(paths, value):
    source = f"[{', '.join(paths)}]"
    variables = {"input": {"a": value, "b": 1}, "nodes": {"a": value}}
    whole = NodeExpression(f"[input, nodes].size() == 2 ? {source} : []", is_boolean=False)

    assert result_of(NodeExpression(source, is_boolean=False), variables) == result_of(whole, variables)


def result_of(expression, variables):
    try:
        return expression.result(variables)
    except ExpressionFailed:
        return "failed"
