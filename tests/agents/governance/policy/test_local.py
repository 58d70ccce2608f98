"""What the rules of a policy decide about calls."""

from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.governance.policy.local import LocalPolicy
from agents.governance.policy.policy_yaml import read_policy
from config.effects import Classification, Effect
from config.identity.principal import Role
from config.policy_decision import Verdict
from tests.agents.governance.policy.calls import asked_model, call

RANKS = list(Verdict)


def test_a_call_that_no_rule_matches_is_allowed(policy_of):
    decision = policy_of().decide(call())

    assert (decision.verdict, decision.rule, decision.reason) == (Verdict.ALLOW, "default", "")


@pytest.mark.parametrize(
    ("when", "facts", "other"),
    [
        ({"tools": ["pay*"]}, {}, {"name": "mail"}),
        ({"effects": ["unsafe", "keyed"]}, {}, {"effect": Effect.PURE}),
        ({"classifications": ["RESTRICTED"]}, {"classification": Classification.RESTRICTED}, {}),
        ({"tenants": ["acme"]}, {}, {"tenant": "other"}),
        ({"agents": ["off?ce"]}, {}, {"agent_id": "atlas"}),
        ({"models": ["demo/*"]}, {}, {"model": "openai/gpt"}),
        ({"principals": ["ann", "bob"]}, {}, {"principal": "eve"}),
        ({"roles": ["operator"]}, {"roles": frozenset({Role.OPERATOR})}, {"roles": frozenset({Role.VIEWER})}),
        (
            {"labels": ["untrusted", "sensitive"]},
            {"labels": frozenset({"untrusted", "sensitive", "x"})},
            {"labels": frozenset({"untrusted"})},
        ),
        ({"provenance": ["http_*"]}, {"labels": frozenset({"from:http_get"})}, {"labels": frozenset({"http_get"})}),
        ({"spent": {"cost_usd": 1, "tokens": 10}}, {"cost_usd": 1.0, "tokens": 10}, {"cost_usd": 1.0, "tokens": 9}),
        ({"spent": {"steps": 3}}, {"steps": 3}, {"steps": 2}),
        ({"privileged": True}, {"is_privileged": True}, {}),
        ({}, {}, None),
    ],
)
def test_a_rule_matches_calls_by_its_fields(policy_of, when, facts, other):
    policy = policy_of({"when": when, "verdict": "block"})

    assert policy.decide(call(**facts)).rule == "rule-0"
    if other is not None:
        name = other.pop("name", "pay")
        assert policy.decide(call(name, **other)).rule == "default"


OF_EVIL = {"identity": "mcp:evil/pay"}


@pytest.mark.parametrize("name", ["pay", "evil_pay", "other"])
@pytest.mark.parametrize("written", ["pay", "p?y", "evil_pay", "mcp:evil/pay", "mcp:evil", "mcp:*/pay", "mcp:evil/*"])
def test_a_rule_matches_a_servers_tool_by_its_identity_and_its_own_name(policy_of, written, name):
    policy = policy_of({"when": {"tools": [written]}, "verdict": "block"})

    assert policy.decide(call(name, **OF_EVIL)).verdict is Verdict.BLOCK
    assert policy.decide(call("send", identity="mcp:evil2/send")).verdict is Verdict.ALLOW


@pytest.mark.parametrize(("server", "written"), [("reader", "*read*"), ("mcp", "mcp*")])
def test_a_pattern_of_names_does_not_look_at_the_server(policy_of, server, written):
    policy = policy_of({"when": {"tools": [written]}, "verdict": "block"})

    assert policy.decide(call("pay", identity=f"mcp:{server}/pay")).verdict is Verdict.ALLOW


@pytest.mark.parametrize("verdict", ["allow", "constrain", "require_approval", "block"])
def test_a_name_at_a_server_loosens_no_policy_that_denies_by_default(policy_of, verdict):
    rule = {"when": {"tools": ["pay"]}, "verdict": verdict} | ({"timeout_s": 1} if verdict == "constrain" else {})
    policy = policy_of(rule, default="halt")

    assert policy.decide(call("evil_pay", **OF_EVIL)).verdict is Verdict.HALT
    assert policy.decide(call("pay", identity="mcp:bank/pay")).verdict is Verdict(verdict)


@pytest.mark.parametrize("unless", [{"tools": ["pay"]}, {"provenance": ["look"]}])
def test_a_name_at_a_server_is_no_exception(policy_of, unless):
    policy = policy_of({"unless": unless, "verdict": "block"})
    of_bank, of_evil = ({f"from:{server}_look", f"from:mcp:{server}/look"} for server in ("bank", "evil"))

    evil = call("evil_pay", **OF_EVIL, labels=frozenset(of_evil))
    bank = call("pay", identity="mcp:bank/pay", labels=frozenset(of_bank | {"from:look"}))

    assert [policy.decide(facts).verdict for facts in (evil, bank)] == [Verdict.BLOCK, Verdict.ALLOW]


@pytest.mark.parametrize("written", ["look", "shop_look", "mcp:shop/look", "mcp:shop"])
def test_a_source_is_known_by_its_identity_and_its_own_name(policy_of, written):
    policy = policy_of({"when": {"tools": ["pay"], "provenance": [written]}, "verdict": "block"})

    read = policy.decide(call("shop_look", identity="mcp:shop/look"))

    assert policy.decide(call(labels=frozenset(read.labels))).verdict is Verdict.BLOCK
    assert read.identity == "mcp:shop/look"


@pytest.mark.parametrize("condition", ['tool == "pay"', 'identity == "mcp:evil/pay"'])
def test_a_condition_reads_the_name_at_the_server(policy_of, condition):
    policy = policy_of({"condition": condition, "verdict": "block"})

    assert policy.decide(call("evil_pay", **OF_EVIL)).verdict is Verdict.BLOCK


ALLOWED, BLOCKED = Verdict.ALLOW, Verdict.BLOCK
AS_EVIL = call("evil_pay", **OF_EVIL, effect=Effect.PURE)
OF_BANK = call("pay", identity="mcp:bank/pay", effect=Effect.PURE)


@pytest.mark.parametrize(
    ("rule", "default", "of_evil", "of_bank"),
    [
        ({"condition": 'tool == "pay"', "verdict": "allow"}, "block", BLOCKED, ALLOWED),
        ({"condition": 'tool == "pay" || arguments.x > 1', "verdict": "allow"}, "block", BLOCKED, ALLOWED),
        ({"condition": 'tool != "pay"', "verdict": "block"}, "allow", BLOCKED, ALLOWED),
        ({"condition": 'tool.startsWith("evil_")', "verdict": "block"}, "allow", BLOCKED, ALLOWED),
        ({"condition": 'tool != "pay"', "verdict": "allow"}, "block", BLOCKED, BLOCKED),
        ({"condition": 'tool == "pay"', "verdict": "constrain", "timeout_s": 1}, "halt", Verdict.HALT, "constrain"),
        (
            {"condition": 'tool == "pay" || arguments.x > 1', "verdict": "constrain", "timeout_s": 1},
            "halt",
            Verdict.HALT,
            "constrain",
        ),
        ({"condition": 'tool == "pay"', "verdict": "require_approval"}, "block", BLOCKED, "require_approval"),
        (
            {"condition": 'tool == "pay" && arguments.x > 1', "verdict": "require_approval"},
            "block",
            BLOCKED,
            "require_approval",
        ),
        (
            {"condition": 'tool == "pay"', "verdict": "require_approval"},
            "allow",
            "require_approval",
            "require_approval",
        ),
        ({"condition": 'tool == "pay" || arguments.x > 1', "verdict": "halt"}, "allow", Verdict.HALT, Verdict.HALT),
    ],
)
def test_a_condition_loosens_by_no_name_that_a_server_chose(policy_of, rule, default, of_evil, of_bank):
    policy = policy_of(rule, default=default)

    decided = [policy.decide(tool).verdict for tool in (AS_EVIL, OF_BANK)]

    assert decided == [of_evil, of_bank]


def test_a_condition_about_the_name_at_the_server_is_asked_as_the_server_writes_it(policy_of):
    policy = policy_of({"condition": 'tool == "pay.all"', "verdict": "block"})

    assert policy.decide(call("pay_all", identity="mcp:bank/pay.all")).verdict is Verdict.BLOCK


def test_labels_of_a_rule_count_with_any_of_the_names(policy_of):
    policy = policy_of({"condition": 'tool != "pay"', "verdict": "allow", "labels": ["secret"]})

    assert [policy.decide(tool).labels for tool in (AS_EVIL, OF_BANK)] == [("secret",), ()]


@pytest.mark.parametrize("source", ['tool == "pay" ? 1000 : 10', 'tool == "pay" ? 10 : 1000'])
def test_a_value_that_differs_by_the_name_that_a_server_chose_blocks(policy_of, source):
    policy = policy_of({"verdict": "constrain", "computed": {"cents": source}})

    evil, bank = (policy.decide(tool) for tool in (AS_EVIL, OF_BANK))

    assert (evil.verdict, bank.verdict) == (BLOCKED, Verdict.CONSTRAIN)
    assert "rule 'rule-0' wants different values of the argument 'cents'" in evil.reason


def test_many_conditions_that_are_asked_at_once_are_asked_with_each_name(policy_of):
    rules = [{"condition": f'tool == "pay" && cost_usd < {n + 1}', "verdict": "allow"} for n in range(8)]
    policy = policy_of(*rules, default="block")

    assert [policy.decide(tool).verdict for tool in (AS_EVIL, OF_BANK)] == [BLOCKED, ALLOWED]
    assert set(policy.matching(AS_EVIL, 0)) == {f"rule-{n}" for n in range(8)}


def test_unless_is_an_exception(policy_of):
    policy = policy_of(
        {"when": {"tools": ["pay"]}, "unless": {"principals": ["ann"], "tools": ["p*"]}, "verdict": "block"}
    )

    assert policy.decide(call()).verdict is Verdict.ALLOW
    assert policy.decide(call(principal="bob")).verdict is Verdict.BLOCK


def test_an_exception_by_tool_alone_is_decided_once(policy_of):
    policy = policy_of({"unless": {"tools": ["pay"]}, "verdict": "block"})

    assert [policy.decide(call(name)).verdict for name in ("pay", "mail")] == [Verdict.ALLOW, Verdict.BLOCK]


@pytest.mark.parametrize(
    ("at", "is_in"),
    [
        ("2026-11-23T17:59", False),  # Monday, 18:59 in Berlin
        ("2026-11-23T18:00", True),
        ("2026-11-24T04:59", True),  # of the window that began on Monday
        ("2026-11-24T05:00", False),
        ("2026-11-24T20:00", False),  # Tuesday
    ],
)
def test_a_time_window_may_reach_into_the_next_day(policy_of, at, is_in):
    window = {"days": ["mon"], "from": "19:00", "to": "06:00", "zone": "Europe/Berlin"}
    policy = policy_of({"when": {"time": window}, "verdict": "block"})

    at_ms = int(datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp() * 1000)

    assert policy.decide(call(), at_ms).verdict is (Verdict.BLOCK if is_in else Verdict.ALLOW)


def test_rules_of_models_and_of_tools_are_apart(policy_of):
    policy = policy_of({"point": "model", "verdict": "halt"}, {"when": {"tools": ["pay"]}, "verdict": "block"})

    assert policy.decide(asked_model()).rule == "rule-0"
    assert policy.decide(call()).rule == "rule-1"


def test_a_default_denies_what_no_rule_allows(policy_of):
    policy = policy_of({"when": {"tools": ["clock"]}, "verdict": "allow"}, default="block", model_default="halt")

    assert policy.decide(call("clock")).verdict is Verdict.ALLOW
    assert policy.decide(call()).verdict is Verdict.BLOCK
    assert policy.decide(asked_model()).verdict is Verdict.HALT


def test_changes_of_all_matching_rules_count(policy_of):
    policy = policy_of(
        {"verdict": "constrain", "arguments": {"limit": 10}, "timeout_s": 9},
        {"verdict": "constrain", "computed": {"path": "'/srv/' + arguments.path"}, "timeout_s": 5},
        {"verdict": "require_approval", "labels": ["sensitive"], "when": {"tools": ["pay"]}},
    )

    decision = policy.decide(call(arguments={"path": "a", "limit": 99, "to": "x"}))

    assert decision.verdict is Verdict.REQUIRE_APPROVAL
    assert decision.arguments == {"path": "/srv/a", "limit": 10, "to": "x"}
    assert (decision.timeout_s, decision.labels) == (5, ("sensitive",))


def test_rules_that_want_different_values_of_an_argument_block_the_call(policy_of):
    policy = policy_of(
        {"verdict": "constrain", "arguments": {"limit": 10}},
        {"verdict": "constrain", "arguments": {"limit": 20}, "when": {"tools": ["pay"]}},
    )

    decision = policy.decide(call())

    assert decision.verdict is Verdict.BLOCK
    assert "'rule-0' and 'rule-1'" in decision.reason


RULE_OF_TWO = frozenset({"untrusted", "sensitive", "outward"})


@pytest.mark.parametrize("missing", sorted(RULE_OF_TWO))
def test_the_rule_of_two_ships_and_needs_all_three(policy_of, missing):
    decision = policy_of().decide(call(labels=RULE_OF_TWO))

    assert (decision.verdict, decision.rule) == (Verdict.REQUIRE_APPROVAL, "rule-of-two")
    assert policy_of().decide(call(labels=RULE_OF_TWO - {missing})).rule == "default"


def test_the_rule_of_two_is_switched_off_by_name(policy_of):
    policy = policy_of(switched_off=["rule-of-two"])

    assert policy.decide(call(labels=RULE_OF_TWO)).verdict is Verdict.ALLOW
    assert policy.version != policy_of().version


def test_the_version_is_that_of_the_content(policy_of):
    first, same = policy_of({"verdict": "block"}).version, policy_of({"verdict": "block"}).version

    assert first == same != policy_of({"verdict": "halt"}).version


# --- properties

RULES = st.fixed_dictionaries(
    {"verdict": st.sampled_from(["allow", "constrain", "require_approval", "block", "halt"])},
    optional={
        "when": st.sampled_from([{"tools": ["pay"]}, {"tools": ["mail"]}, {"tenants": ["acme"]}, {"labels": ["seen"]}]),
        "condition": st.sampled_from(["arguments.amount > 10", "arguments.amount > 99", "has(arguments.amount)"]),
    },
)


def distinct(rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rules without those that match what another one matches, and with a name each."""
    by_match = {str((rule.get("when"), rule.get("condition"))): rule for rule in rules}
    return [
        rule | {"name": f"r{number}", "reason": "So."} | ({"timeout_s": 5} if rule["verdict"] == "constrain" else {})
        for number, rule in enumerate(by_match.values())
    ]


def counting(rule: dict[str, Any], amount: int | None) -> Verdict:
    """Return what a matching rule counts as: one that would halt the run blocks where it fails."""
    has_failed = amount is None and ">" in rule.get("condition", "")
    return Verdict.BLOCK if has_failed and rule["verdict"] == "halt" else Verdict(rule["verdict"])


def read(folder: Path, rules: list[dict[str, Any]]) -> LocalPolicy:
    path = folder / "policy.yaml"
    path.write_text(yaml.safe_dump({"rules": rules}))
    return read_policy([path])


@pytest.mark.parity
@settings(deadline=None, max_examples=60)
@given(
    rules=st.lists(RULES, max_size=12), seed=st.randoms(use_true_random=False), amount=st.sampled_from([None, 5, 50])
)
def test_the_strictest_matching_rule_decides_whatever_the_order(tmp_path_factory, rules, seed: Random, amount):
    folder, written = tmp_path_factory.mktemp("policy"), distinct(rules)
    facts = call(arguments={} if amount is None else {"amount": amount}, labels=frozenset({"seen"}), effect=Effect.PURE)
    policy = read(folder, written)

    decision = policy.decide(facts)

    matching = [rule for rule in written if rule["name"] in policy.matching(facts, 0)]
    strictest = max((RANKS.index(counting(rule, amount)) for rule in matching), default=0)
    assert decision.verdict is RANKS[strictest]
    shuffled = list(written)
    seed.shuffle(shuffled)
    assert read(folder, shuffled).decide(facts).verdict is decision.verdict
    without_last = read(folder, written[:-1]).decide(facts).verdict
    assert RANKS.index(without_last) <= strictest, "one more rule never loosens a policy"


@pytest.mark.parametrize(("count", "failing"), [(1, False), (2, False), (2, True), (45, False), (45, True)])
def test_conditions_asked_at_once_decide_as_those_asked_one_by_one(policy_of, count, failing):
    rules = [{"verdict": "allow", "condition": f"arguments.n % {number + 2} == 0"} for number in range(count)]
    rules += [{"verdict": "allow", "condition": "arguments.missing == 1"}] * failing
    policy = policy_of(*rules)

    matching = policy.matching(call(arguments={"n": 60}), 0)

    assert list(matching) == [f"rule-{number}" for number in range(count) if 60 % (number + 2) == 0]
