"""What `doctor` says of the policy's files."""

import pytest

from cli.doctor.agents import check_policy
from config.settings import Settings

RULE = "rules: [{name: one, verdict: block, reason: 'No.', condition: %s}]"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rules: []", ("ok", "rules: 1, version ")),
        (RULE % "steps > 1", ("ok", "rules: 2, version ")),
        (RULE % "arguments.expresion > 1", ("warn", "rule 'one': 'expresion' is no argument of the ")),
        (RULE % "1 > 2", ("warn", "rule 'one': its condition is never true")),
        (RULE % "1 >", ("fail", "policy.yaml:1: rule 'one': its condition is not CEL")),
        ("rules: 7", ("fail", "policy.yaml:1: rules: has to be a list")),
    ],
)
def test_each_state_of_the_policy_is_a_finding(tmp_path, text, expected):
    (tmp_path / "policy.yaml").write_text(text)

    ((verdict, message),) = check_policy(Settings(policy=str(tmp_path / "policy.yaml"), state_dir=tmp_path))

    assert verdict == expected[0]
    assert expected[1] in message
