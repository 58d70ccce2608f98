"""The examples of docs/policy.md do what the page says."""

from datetime import UTC, datetime

import pytest

from agents.governance.policy.policy_yaml import read_policy
from config.effects import Effect
from config.folders import ROOT
from config.identity.principal import Role
from tests.agents.governance.policy.calls import asked_model, call
from tests.test_docs import examples

EXAMPLES = examples((ROOT / "docs" / "policy.md").read_text(), "yaml")
NOON = int(datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp() * 1000)
NIGHT = NOON + 12 * 3_600_000
OPERATOR = frozenset({Role.OPERATOR})
OUTSIDE, INSIDE = {"to": ["ann@acme.example", "eve@evil.example"]}, {"to": ["ann@acme.example"]}


@pytest.fixture
def policies(tmp_path):
    for number, example in enumerate(EXAMPLES):
        (tmp_path / f"{number}.yaml").write_text(example)
    return [read_policy([tmp_path / f"{number}.yaml"]) for number in range(len(EXAMPLES))]


@pytest.mark.parametrize(
    ("facts", "at_ms", "expected"),
    [
        (call("send_mail", arguments=OUTSIDE), NOON, "block mail-stays-inside"),
        (call("send_mail", arguments=INSIDE), NOON, "allow default"),
        (call("send_mail"), NOON, "block mail-stays-inside"),  # the condition fails, and the call has an effect
        (call("refund", arguments={"cents": 10001}, roles=OPERATOR), NOON, "require_approval refunds-are-approved"),
        (call("refund", arguments={"cents": 10000}, roles=OPERATOR), NOON, "allow default"),
        (call("refund", arguments={"cents": 10001}, roles=OPERATOR, principal="billing-batch"), NOON, "allow default"),
        (call("search_web", arguments={"limit": 90}, effect=Effect.PURE), NOON, "constrain searches-are-short"),
        (call("pay"), NIGHT, "require_approval no-orders-at-night"),
        (call("pay", effect=Effect.PURE), NIGHT, "allow default"),
        (asked_model(cost_usd=2.5), NOON, "halt runs-cost-at-most-two-dollars"),
        (asked_model(cost_usd=1.5), NOON, "allow default"),
    ],
)
def test_the_first_example_decides_as_its_reasons_say(policies, facts, at_ms, expected):
    decision = policies[0].decide(facts, at_ms)

    assert f"{decision.verdict} {decision.rule}" == expected
    if decision.verdict == "constrain":
        assert (decision.arguments, decision.timeout_s) == ({"limit": 50, "language": "en"}, 10)


def test_the_other_examples_decide_as_the_page_says(policies):
    denies, labels, without = policies[1:]

    assert denies.decide(call(effect=Effect.PURE)).verdict == "allow"
    assert denies.decide(call()).verdict == "block"
    assert labels.decide(call("read_file", arguments={"path": "personnel/ann.txt"})).labels == ("sensitive",)
    assert labels.decide(call("read_file", arguments={"path": "menu.txt"})).labels == ()
    assert [rule.name for rule in without.rules] == []


def test_every_field_is_explained():
    from agents.governance.policy.rule import CallMatch, PolicyFields, RuleFields

    page = (ROOT / "docs" / "policy.md").read_text()

    for section in (CallMatch, PolicyFields, RuleFields):
        assert [name for name in section.model_fields if f"`{name}`" not in page] == []
