"""Templates: what they give for JSON data, and which sources are refused."""

import time
import tracemalloc
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from config.expressions.errors import ExpressionFailed, ExpressionRefused
from config.expressions.template_data import Rendering
from config.expressions.templates import MAX_KEPT, Template, render_data, template_of, templates_in
from tests.config.expressions.variables import JSON, TEXTS, VARIABLES


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("no braces, { one }", "no braces, { one }"),
        ("{{ input.amount }}", 120),
        (" {{ input.order }}\n", {"items": 3, "id": "o-1"}),
        ("{{ input.note }}", None),
        ("{{ input.paid }}", True),
        ("{{ input.tags }}", ["new", "red"]),
        ("{{ input.lines[1].price }}", 2),
        ("{{ nodes['look-up'].hits }}", []),
        ("{{ [input.share, input.note, input.order] }}", [0.5, None, {"items": 3, "id": "o-1"}]),
        ("{{ input.amount + 1 }}", 121),
        ("{{ input.amount }} EUR", "120 EUR"),
        ("for {{ input.order }}, {{ input.note }}, {{ input.paid }}", 'for {"items":3,"id":"o-1"}, null, true'),
        ("{{ input.order.items }} items", "3 items"),
        ("{% if input.note is none %}-{% else %}{{ input.note }}{% endif %}\n", "-\n"),
        ("{{ 'many' if input.paid else 'none' }}{# why #}", "many"),
        ("{{ input.title | default('untitled') }}", "untitled"),
        ("{{ input.title | default(null) }}", None),
        ("{% if input['title'] is not defined %}-{% endif %}", "-"),
        ("{{ (input.lines | first).hits | default(0) }}", 0),
        ("{{ input[input.name] | default(0) }}", 0),
        ("{{ input.lines[7] | default(0) }}{{ input.tags | length }}", "02"),
        ("{{ input.title is defined }} {{ input.note == null }}", "false true"),
        ('{"name": {{ input.name | tojson }}}', '{"name": "Ann \\"A\\"\\n"}'),
        ("/orders/{{ '../a b?' | urlencode }}", "/orders/..%2Fa%20b%3F"),
        ("{{ input.lines | map(attribute='title') | join(', ') }}", "pen, cap"),
        ("{{ input.lines | map(attribute='price') | sum }}", 3),
        ("{{ (input.lines | last).title | upper | replace('C', 'T') }}", "TAP"),
        ("{{ input.tags | sort(reverse=true) }}", ["red", "new"]),
        ("{{ input.name[:3] | lower }}", "ann"),
        ("{{ 'red' in input.tags and 'items' in input.order and 'keys' not in input.order }}", True),
        ("{{ input.order == {{", "refused"),
        ("{{ input.order == variables }}", False),
        ("{{ nodes[input.tags[0]] is defined }}", False),
        ("{{ '{{' }} x }}", "{{ x }}"),
    ],
)
def test_a_template_gives_data_where_it_is_one_expression_and_text_where_it_is_more(source, value):
    if value == "refused":
        with pytest.raises(ExpressionRefused):
            Template(source)
        return

    result = Template(source).value(VARIABLES)

    assert (result, type(result)) == (value, type(value))


def test_a_reference_alone_is_the_value_itself():
    assert Template("{{ input.order }}").value(VARIABLES) is VARIABLES["input"]["order"]


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("{% for i in input.lines %}x{% endfor %}", "join the items with `| join`"),
        ("{% set a = input %}", "has `{% set %}`"),
        ("{% include '/etc/passwd' %}", "has `{% include %}`"),
        ("{% import 'a' as b %}", "has `{% import %}`"),
        ("{% macro f() %}{{ f() }}{% endmacro %}", "has `{% macro %}`"),
        ("{% raw %}{% endraw %}", "has `{% raw %}`"),
        ("{{ range(10 ** 9) }}", "calls the function `range`"),
        ("{{ input.items() }}", "calls `items`"),
        ("{{ (input.items)() }}", "calls `)`"),
        ("{{ debug() }}", "calls the function `debug`"),
        ("{{ ''.__class__.__mro__ }}", "asks for an attribute"),
        ("{{ input|first.name }}", "asks for an attribute"),
        ("{{ input|attr('format') }}", "has the filter `attr`"),
        ("{{ '{0.__class__}'|format(input) }}", "has the filter `format`"),
        ("{{ input|safe }}", "has the filter `safe`"),
        ("{{ input is sameas(1) }}", "has the test `sameas`"),
        ("{{ [0]*10**8 }}", "repeats texts and lists"),
        ("{{ 'x' * 10 }}", "repeats texts and lists"),
        ("{{ 7*7 }}", "compute it in an expression of CEL"),
        ("{{ input.amount > 100 }}", "compare in a condition"),
        ("{{ input ~ input }}", "write the parts one behind the other"),
        ("{{ {'a': 1} }}", "a mapping"),
        ("{{ config }}", "names `config`, which is not there; there are input, nodes"),
        ("{{ inptu.amount }}", "Did you mean 'input'?"),
        ("{{ self }}", "names `self`"),
        ("{{ none }}", "write `null`"),
        ("{{ 'a' if input }}", "has no `else`"),
        ("{{ input.lines.0 }}", "write `[0]`"),
        ("{{ input | sort(attribute='a') }}", "sets `attribute`"),
        ("{{ input.lines | map(attribute=input.name) }}", "an `attribute` that is no text in quotes"),
        ("{{ input = 1 }}", "compare with `==`"),
        ("{{ input && input }}", "has `&`, which is no operator"),
        ("{{ input", "is not closed"),
        ("{{ 'a }}", "has a text that is not closed"),
        ("{# a", "has a comment that is not closed"),
        ("{{ (input }}", "has a `(` that is not closed"),
        ("{{ input] }}", "has a `]` that closes nothing"),
        ("{{ é }}", "has 'é' at character 4"),
        ("{{ \0 }}", r"has '\x00' at character 4"),
        ("\ud800{{ input }}", "lone surrogate"),
        ("{{ }}", "is no template"),
        ("{{ input input }}", "is no template"),
        ("{% if input %}", "is no template"),
        ("{{ " + "-" * 50_000 + "1 }}", "more than 200 names"),
        ("{{ " + "not " * 20_000 + "input }}", "more than 200 names"),
        ("{{ " + "(" * 150 + "input" + ")" * 49 + " }}", "has a `(`"),
        ("{{ input" + " | lower" * 11 + " }}", "more than 10 filters"),
        ("{% if input %}" * 101, "more than 100 branches"),
        ("x" * 100_001, "the limit is 100,000"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused_at_once(source, problem):
    started = time.perf_counter()

    with pytest.raises(ExpressionRefused) as refusal:
        Template(source)

    assert problem in str(refusal.value)
    assert time.perf_counter() - started < 0.5


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("x{{ input.amont }}", "`input.amont` has no value: `input` has the fields amount, lines, name, note,"),
        ("{{ input.amont }}", "Did you mean 'amount'?"),
        ("x{{ input.lines[2].price }}", "`input.lines[2]` has no value: `input.lines` is a list of 2"),
        ("{{ input.amount.cents }}", "`input.amount.cents` has no value: `input.amount` is a number"),
        ("{{ input.order.keys }}", "`input.order.keys` has no value: `input.order` has the fields id, items"),
        ("x{{ input.order.__class__ }}", "`input.order.__class__` has no value"),
        ("{{ nodes.refund.id }}", "`nodes.refund` has no value: `nodes` has the fields charge, look-up"),
        ("{{ item.price + 1 }}", "there is no `item` here; there are input, nodes, variables"),
        ("{{ nodes[input.name].id }}", "`{{ nodes[input.name].id }}` has no value"),
        ("{{ input.title | tojson }}", "`input.title` has no value"),
        ("{{ [input.title] }}", "`input.title` has no value"),
        ("{{ input.other | default(1) }}{{ input.title | join }}", "`input.title` has no value"),
        ("{{ input.title is none }}", "`input.title` has no value"),
        ("{% if input.title %}{% endif %}", "`input.title` has no value"),
        ("{{ input.title | default('') }}{{ input.title }}", "`input.title` has no value"),
        ("{{ [input.lines['count']] | length }}", "`input.lines.count` has no value: `input.lines` is a list of 2"),
        ("{{ input.hits | first }}", "`input.hits` has no value"),
        ("{{ input.hits | length }}", "`input.hits` has no value"),
        ("{{ [input.hits] | length }}", "`input.hits` has no value"),
        ("{{ 1 in [input.hits] }}", "`input.hits` has no value"),
        (
            "{{ (input.lines | first).hits | length }}{{ input.title | default('') }}",
            "first).hits | length }}` has no value",
        ),
        ("{{ input.note | length }}", "`length` takes a text, a list or a mapping"),
        ("{{ nodes['look-up'].hits | first }}", "`{{ nodes['look-up'].hits | first }}` has no value"),
        ("{{ input.lines | map(attribute='name') }}", "`map` looks for 'name', and an item has price, title"),
        ("{{ input.lines | map('upper') }}", "a filter has other arguments than it takes"),
        ("{{ input.name | join }}", "`join` takes a list"),
        ("{{ input.order | urlencode }}", "`urlencode` takes a text or a number"),
        ("{{ input.name | replace('', 'x') }}", "the one to replace is not empty"),
        ("{{ input.amount / 0 }}", "`{{ input.amount / 0 }}` cannot be computed"),
        ("{{ input.amount + input.name }}", "cannot be computed"),
        ("{{ '%(x)s' % input }}", "cannot be computed"),
        ("{{ 9223372036854775807 + 1 }}", "more than 64 bits"),
        ("{{ 1e308 + 1e308 }}", "a number is infinite"),
    ],
)
def test_a_template_without_a_value_says_which_and_no_values(source, problem):
    with pytest.raises(ExpressionFailed) as failure:
        Template(source).value(VARIABLES)

    assert problem in str(failure.value)
    assert not any(value in str(failure.value) for value in ("120", "Ann"))
    assert failure.value.__context__ is None, "the library's error has values"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("\ud800", "`input.a`: a text has half a character"),
        ({"\ud800": 1}, "`input.a`: a mapping has a key that is no text"),
        ({1: 2}, "a key that is no text"),
        (float("nan"), "`input.a`: a number is infinite, or no number"),
        ([float("inf")], "a number is infinite, or no number"),
        (2**63, "`input.a`: a number has more than 64 bits"),
        (-(2**63) - 1, "more than 64 bits"),
        (object(), "a value is no JSON data"),
        ({"a": [b"x"]}, "a value is no JSON data"),
    ],
)
def test_what_is_no_json_fails(value, problem):
    for source in ("x{{ input.a }}", "{{ [input.a] }}", "{{ [input.a] | tojson }}"):
        with pytest.raises(ExpressionFailed) as failure:
            Template(source).value({"input": {"a": value}})

        assert problem in str(failure.value)


def nested(depth: int) -> Any:
    value: Any = "a"
    for _ in range(depth):
        value = {"a": [value]}
    return value


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("{{ input.a }}!", "x" * 100_000_000),
        ("{{ input.a }}" * 5 + "!", "x" * 400_000),
        ("{{ input.a | replace('x', '" + "y" * 1000 + "') }}", "x" * 100_000),
        ("{{ input.a" + " | tojson" * 10 + " }}", '"' * 10_000),
        ("{{ input.a | join('" + "y" * 10_000 + "') }}", ["x"] * 1000),
        ("{{ [" + "input.a," * 40 + "] | tojson }}", ["x"] * 10_000),
        ("{{ [" + "input.a," * 40 + "] }}", ["x" * 30_000]),
        ("{{ input.a | sort | length }}", [{"x": "y" * 1000}] * 10_000),
        ("{{ input.a | sum }}", [1] * 5_000_000),
        ("{{ 5 in input.a }}", [1] * 5_000_000),
        ("{{ input.a }}!", [1] * 20_000_000),
        ("y" * 99_000 + "{{ input.a }}", "x" * 950_000),
        ("{{ 5 in input.a }}" * 1000, [1] * 400_000),
        ("{{ input.a == input.a }}" * 1000, [1] * 100_000),
        ("{{ input.a }}!", nested(10_000)),
        ("{{ input.a == input.a }}", nested(10_000)),
        ("{{ [input.a] | tojson }}", nested(100)),
    ],
)
def test_a_template_that_would_take_much_time_or_memory_fails_soon(source, value):
    template = Template(source)
    started = time.perf_counter()

    with pytest.raises(ExpressionFailed) as failure:
        template.value({"input": {"a": value}})

    assert any(text in str(failure.value) for text in ("would run long", "1,000,000 characters", "nested more than 64"))
    assert time.perf_counter() - started < 1


def test_a_list_that_is_too_long_is_not_gone_through():
    rendering = Rendering()

    assert len(rendering.view([1] * 1_000_000)) == 0
    assert "would run long" in rendering.problem


def test_what_is_made_is_counted_before_it_is_put_together():
    template = Template(("{{ input.a | replace('x', '" + "y" * 1000 + "') }}") * 90)
    values = {"input": {"a": "x" * 900}}
    tracemalloc.start()

    with pytest.raises(ExpressionFailed, match="1,000,000 characters"):
        template.value(values)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000_000


def test_the_library_counts_its_own_work_too(monkeypatch):
    monkeypatch.setattr("config.expressions.templates.FUEL", 10)

    with pytest.raises(ExpressionFailed, match="would run long"):
        Template("{{ input.tags }}!" * 20).value(VARIABLES)


def test_the_longest_expressions_and_branches_fit_on_a_small_stack():
    chains = ["1" + "+1" * 99, "-" * 190 + "1", "not " * 190 + "input", "input" + ".a" * 90 + " | default(1)"]
    for source in [*(f"{{{{ {chain} }}}}" for chain in chains), "{% if 0 %}" + "{% elif 0 %}" * 98 + "{% endif %}"]:
        on_small_stack(lambda source=source: Template(source))


def on_small_stack(function):
    import threading

    before = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=function)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)


@given(value=TEXTS)
def test_a_value_is_never_a_template(value):
    variables = {"input": {"a": value + "{{ input.b }}{% if 1 %}", "b": "no"}}

    assert Template("{{ input.a }}").value(variables) == variables["input"]["a"]
    assert Template("<{{ input.a }}>").value(variables) == f"<{variables['input']['a']}>"
    assert render_data(["{{ input.a }}", {"{{ input.a }}": 1}], variables)[1] == {"{{ input.a }}": 1}


@given(value=JSON)
def test_any_json_goes_through_unchanged(value):
    variables = {"input": {"a": value}}

    assert Template("{{ [input.a] }}").value(variables) == [value]
    assert orjson.loads(Template("{{ input.a | tojson }}").value(variables)) == value
    assert orjson.loads(Template("[{{ [input.a] }}]").value(variables)) == [[value]]


PIECES = st.sampled_from(
    "{{ }} {% %} {# #} {{- -}} if else endif elif for in input .a ['a'] [0] nodes . [ ] ( ) | tojson join default( is "
    "defined not and == + - / ' \" \\ , : null true 1 0.5 1e9 item * ~ x \n \0 é".split(" ")
)


@pytest.mark.parity
@settings(max_examples=500)
@given(pieces=st.lists(PIECES, max_size=14), value=JSON)
def test_whatever_a_source_is_it_is_refused_or_has_a_value_or_fails(pieces, value):
    source = " ".join(pieces)
    try:
        result = Template(source).value({"input": value, "nodes": {}, "item": [value]})
    except (ExpressionRefused, ExpressionFailed):
        return

    orjson.dumps(result)
    if not any(braces in source for braces in ("{{", "{%", "{#")):
        assert result == source


@pytest.mark.parametrize(
    ("source", "names", "nodes"),
    [
        ("no template: nodes.a", set(), set()),
        ("{{ input.nodes.a }}", {"input"}, set()),
        ("{{ nodes.a.x }} {{ nodes['b-c'].x }} {{ variables.a }}", {"nodes", "variables"}, {"a", "b-c"}),
        ("{% if nodes.a.ok %}{{ nodes.b | default(nodes.c) }}{% endif %}", {"nodes"}, {"a", "b", "c"}),
        ("{{ nodes[input.which].x }}", {"nodes", "input"}, None),
        ("{{ nodes | tojson }}", {"nodes"}, None),
        ("{{ nodes['a\\u0062'].x }}", {"nodes"}, None),
        ("{# {{ nodes.a }} #}{{ 'nodes.b' }}", set(), set()),
    ],
)
def test_a_template_names_what_it_refers_to(source, names, nodes):
    template = Template(source)

    assert (template.names, template.nodes) == (names, nodes)


def test_data_is_rendered_text_by_text():
    data = {"{{ input.name }}": ["{{ input.amount }}", {"to": "for {{ input.tags }}"}, 5, None], "plain": "a"}

    result = render_data(data, VARIABLES)

    assert result == {"{{ input.name }}": [120, {"to": 'for ["new","red"]'}, 5, None], "plain": "a"}
    assert dict(templates_in(data)) == {
        ("{{ input.name }}", 0): "{{ input.amount }}",
        ("{{ input.name }}", 1, "to"): "for {{ input.tags }}",
        ("plain",): "a",
    }


def test_data_is_limited_as_a_whole_and_more_may_be_referred_to_than_made():
    variables = {"input": {"a": "x" * 400_000}}

    assert len(render_data(["{{ input.a }}"] * 30, variables)) == 30
    assert len(render_data("{{ input.a }}", {"input": {"a": "x" * 20_000_000}})) == 20_000_000
    with pytest.raises(ExpressionFailed, match="16,000,000 characters of data"):
        render_data(["{{ input.a }}"] * 100, variables)
    with pytest.raises(ExpressionFailed, match="1,000,000 characters"):
        render_data(["<{{ input.a }}>"] * 100, variables)
    with pytest.raises(ExpressionRefused, match="nested more than 64"):
        render_data(nested(100), variables)


def test_templates_of_one_node_read_a_bounded_amount_all_together() -> None:
    variables = {"input": {"texts": ["x" * 100] * 1000}}
    source = "{{ input.texts | join(',') | length }}"

    assert set(render_data([source] * 5, variables)) == {100_999}
    with pytest.raises(ExpressionFailed, match="would run long"):
        render_data([source] * 200, variables)


def test_a_short_template_is_compiled_once_and_a_long_one_is_not_kept() -> None:
    short, long = "{{ input.amount + 1 }}", "{{ input.amount + 1 }}" + " " * MAX_KEPT

    assert template_of(short) is template_of(short)
    assert template_of(long) is not template_of(long)
    assert [template_of(source).value({"input": {"amount": 1}}) for source in (short, short, long)] == [2, 2, 2]


def test_a_source_that_is_refused_is_refused_again() -> None:
    for _ in range(2):
        with pytest.raises(ExpressionRefused):
            template_of("{{ other }}")
