"""Conditions that fail, run long, or cannot be used."""

import time
import tracemalloc
from typing import Any

import orjson
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.governance.policy.condition import Condition, Evaluation
from agents.governance.policy.policy_yaml import read_policy
from config.effects import Effect
from config.expressions.errors import ExpressionFailed, ExpressionRefused
from config.policy_decision import Verdict
from tests.agents.governance.policy.calls import asked_model, call


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("arguments.amount >", "is not CEL"),
        ("argumets.amount > 1", "undeclared reference to 'argumets"),
        ("1 + 1", "has to be true or false, and this is of the type int"),
        ("tool", "of the type string"),
        ("size(1) == 1", "no matching overload for 'size'"),
        ("exec('rm')", "undeclared reference to 'exec'"),
        ("__import__('os') == 1", "is not CEL"),
        ("arguments.a.matches('(')", "has a pattern that cannot be used: invalid regular expression"),
        ("arguments.a.matches('a{1,1000000}')", "has a pattern that cannot be used: invalid regular expression"),
        ("(" * 500 + "true" + ")" * 500, "is not CEL"),
        ("[" * 1999, "is not CEL"),
        (".".join(["arguments.l"] + ["exists(x, x"] * 5) + ")" * 5, "may run long"),
        ("arguments.l.map(x, x + x).map(x, x + x).size() > 1", "may run long"),
        ("true // it's\n && arguments.l.map(x, x + x).map(x, x + x).size() > 1", "may run long"),
    ],
)
def test_a_condition_that_cannot_be_used_is_refused(source, problem):
    started = time.perf_counter()

    with pytest.raises(ExpressionRefused, match=problem.replace("(", r"\(")):
        Condition(source)

    assert time.perf_counter() - started < 0.5


def holds(source: str, arguments: dict[str, Any]) -> bool:
    condition = Condition(source)
    return condition.holds(Evaluation(call(arguments=arguments), 0, condition.names))


@pytest.mark.parametrize(
    ("source", "arguments", "is_true"),
    [
        ("arguments.amount > 100", {"amount": 100.5}, True),
        ("arguments.amount > 100", {"amount": 2**63}, True),
        ("cost_usd < 1 && tokens < 1.5 && steps == 0", {}, True),
        ("'acme' == tenant && principal == 'ann' && agent == 'office' && effect == 'unsafe'", {}, True),
        ("has(arguments.amount) && arguments.amount > 1", {}, False),
        ("arguments.to.all(a, a.endsWith('@acme.example'))", {"to": ["a@acme.example", "b@evil.example"]}, False),
        ("arguments.text.matches('(a+)+$')", {"text": "a" * 100_000 + "!"}, False),
        ("arguments.note == null", {"note": None}, True),
        ("now > timestamp('1969-01-01T00:00:00Z')", {}, True),
        ("model == 'demo/office' // it's the demo\n && .tokens==0&&steps in[0]", {}, True),
    ],
)
def test_a_condition_looks_at_arguments_and_facts(source, arguments, is_true):
    assert holds(source, arguments) is is_true


LISTS = {"l": list(range(3000)), "s": "x" * 100_000}


@pytest.mark.parametrize(
    ("source", "arguments", "problem"),
    [
        ("arguments.amount > 1", {}, 'Key not found in map : "amount"'),
        ("arguments.flag", {"flag": "yes"}, "not true or false"),
        ("arguments.flag", {"flag": 1}, "of the type int"),
        ("arguments.amount > 1", {"amount": 2**70}, "out of range"),
        ("arguments.text == 'a'", {"text": "\ud800"}, "not true or false"),
        ("arguments.text.matches(arguments.pattern)", {"text": "a", "pattern": "("}, "invalid regular expression"),
        ("1 / arguments.zero == 1", {"zero": 0}, "divide by zero"),
        ("arguments.l.all(x, arguments.l.all(y, x + y >= 0))", LISTS, "would run long"),
        (
            "arguments.l.all(x, arguments.l.all(y, x != y || x == y))",
            {"l": LISTS["l"][:200]},
            "Iteration budget exceeded",
        ),
        ("arguments.l.map(x, arguments.s + arguments.s).size() > 0", LISTS, "would run long"),
        ("arguments.l.exists(x, arguments.s.contains('y'))", LISTS, "would run long"),
        ("arguments.s + arguments.s == 'x'", {"s": "x" * 20_000_000}, "would run long"),
        ("arguments.s.matches('[ab]*a[ab]{900}c')", {"s": "ab" * 250_000}, "would run long"),
        ("matches(arguments.s, '([ab]{30}a?){30}c')", {"s": "ab" * 250_000}, "would run long"),
        ("arguments.s.matches('[ab]*' + arguments.p)", {"s": "ab" * 250_000, "p": "a[ab]{900}c"}, "would run long"),
        ("arguments.s.contains(arguments.p)", {"s": "a" * 500_000, "p": "a" * 250_000 + "b"}, "would run long"),
    ],
)
def test_a_condition_that_fails_says_why_soon_and_in_little_memory(source, arguments, problem):
    condition = Condition(source)
    started = time.perf_counter()

    with pytest.raises(ExpressionFailed) as caught:
        condition.holds(Evaluation(call(arguments=arguments), 0, condition.names))

    assert problem in str(caught.value)
    assert time.perf_counter() - started < 1


@pytest.mark.parametrize(
    "source",
    [
        r"arguments.s.matches('^[^@ ]{1,64}@[a-z.]{1,255}$')",
        "arguments.s.contains('needle')",
        "arguments.s.matches('(a+)+$')",
        "arguments.p.contains(arguments.p)",
    ],
)
def test_a_usual_search_is_made_in_tens_of_thousands_of_characters(source):
    assert holds(source, {"s": "x" * 50_000, "p": "y"}) in (True, False)


FACTS: dict[str, dict[str, Any]] = {
    "stays": {"effect": Effect.PURE},
    "leaves": {"effect": Effect.PURE, "leaves": True},
    "acts": {},
}
LONG = {"amount": ["x" * 5000] * 5000}


@pytest.mark.parametrize("arguments", [{}, {"amount": "much"}, LONG], ids=["missing", "of another type", "long"])
@pytest.mark.parametrize("kind", FACTS)
@pytest.mark.parametrize("verdict", ["allow", "constrain", "require_approval", "block", "halt"])
def test_no_argument_lifts_a_rule(policy_of, verdict, kind, arguments):
    more = {"timeout_s": 1} if verdict == "constrain" else {}
    rule = {"verdict": verdict, "condition": "[1].all(n, arguments.amount > n)", "labels": ["seen"], **more}
    is_open = verdict == "allow" or (verdict == "constrain" and kind == "stays")
    counts_as = Verdict.REQUIRE_APPROVAL if verdict == "require_approval" else Verdict.BLOCK

    decision = policy_of(rule).decide(call(arguments=arguments, **FACTS[kind]))

    assert decision.verdict is (Verdict.ALLOW if is_open else counts_as)
    assert f"could not be evaluated {'and was passed over' if is_open else ''}".strip() in decision.reason
    assert decision.labels == ("seen",), "nor what the rule says of the result"
    assert policy_of(rule, default="halt").decide(call(arguments=arguments, **FACTS[kind])).verdict is (
        Verdict.HALT if is_open else counts_as
    )


def test_a_failed_condition_about_a_model_blocks_too(policy_of):
    policy = policy_of({"point": "model", "verdict": "halt", "condition": "arguments.amount > 1"})

    assert policy.decide(asked_model()).verdict is Verdict.BLOCK


@pytest.mark.parametrize("source", ["arguments.missing", "now", "b'x'", "type(1)", "{1: 2}"])
def test_a_computed_argument_that_is_no_json_blocks_the_call(policy_of, source):
    policy = policy_of({"verdict": "constrain", "computed": {"limit": source}})

    assert policy.decide(call()).verdict is Verdict.BLOCK


def test_a_condition_leaves_no_memory_behind():
    condition = Condition("arguments.l.map(x, x + 1).size() > 0")
    arguments = {"l": list(range(300))}
    holds("true", {})
    tracemalloc.start()
    for _ in range(20):
        condition.holds(Evaluation(call(arguments=arguments), 0, condition.names))

    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert used < 100_000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)
ABOUT_X = [
    "arguments.x > 1",
    "arguments.x.size() > 1 || arguments.x.contains('a')",
    "arguments.x.exists(y, y == arguments.x)",
    "arguments.x.matches('^a+$')",
    "has(arguments.x.y) && arguments.x.y == arguments.x",
]


@pytest.mark.parity
@settings(deadline=None, max_examples=300)
@given(arguments=st.dictionaries(st.sampled_from(["x", "y"]), JSON, max_size=2))
def test_whatever_the_arguments_are_there_is_a_decision(any_policy, arguments):
    for effect in (Effect.PURE, Effect.UNSAFE):
        decision = any_policy.decide(call(arguments=arguments, effect=effect))

        assert decision.verdict in Verdict
        orjson.dumps(decision.as_json())


@pytest.fixture(scope="module")
def any_policy(tmp_path_factory):
    rules: list[dict[str, Any]] = [
        {"name": f"r{number}", "verdict": "block", "reason": "So.", "condition": condition}
        for number, condition in enumerate(ABOUT_X)
    ]
    rules.append({"name": "set", "verdict": "constrain", "computed": {"z": "arguments.x"}, "reason": "So."})
    path = tmp_path_factory.mktemp("policy") / "policy.yaml"
    path.write_text(yaml.safe_dump({"rules": rules}))
    return read_policy([path])
