"""Files of policies that cannot be used: each error names file, line, rule and remedy."""

import logging
import os
import pickle
import time
from pathlib import Path

import pytest

from agents.governance.policy.errors import PolicyInvalid
from agents.governance.policy.policy_yaml import PolicySource, read_policy

RULE = """
rules:
  - name: first
    verdict: block
    reason: No.
"""


def problem_of(folder: Path, text: str) -> str:
    path = folder / "policy.yaml"
    path.write_text(text)
    started = time.perf_counter()
    with pytest.raises(PolicyInvalid) as caught:
        read_policy([path])
    assert time.perf_counter() - started < 1
    error = pickle.loads(pickle.dumps(caught.value))
    assert (str(error), error.facts) == (str(caught.value), caught.value.facts)
    return str(error).removeprefix(f"{folder}/")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            ("verdict: block", "verdict: forbid"),
            "policy.yaml:4: rule 'first': verdict: has to be 'allow', 'constrain', "
            "'require_approval', 'block' or 'halt'.",
        ),
        (
            ("verdict: block", "verdct: block"),
            "policy.yaml:4: rule 'first': verdct: there is no such field. Did you mean 'verdict'? Known fields: name,",
        ),
        (("verdict: block", "reson: block"), "policy.yaml:4: rule 'first': reson: there is no such field."),
        (("    reason: No.", ""), "policy.yaml:3: rule 'first': reason: is missing; say why"),
        (("name: first", "name: First Rule"), "policy.yaml:3: rule 'First Rule': name: has to be small letters"),
        (("reason: No.", "when: {tool: [pay]}"), "when.tool: there is no such field. Did you mean 'tools'?"),
        (("reason: No.", "reason: No.\n    when: {tools: pay}"), "when.tools: has to be a list, for example"),
        (("reason: No.", "reason: No.\n    when: {tools: ['a b']}"), "has to be a name or a pattern"),
        (("reason: No.", "reason: No.\n    when: {effects: [dangerous]}"), "has to be 'pure', 'idempotent', 'keyed',"),
        (("reason: No.", "reason: No.\n    when: {time: {from: '25:00'}}"), "has to be a time such as"),
        (("reason: No.", "reason: No.\n    when: {time: {zone: Berlin}}"), "has to be a time zone such as"),
        (("reason: No.", "reason: No.\n    when: {time: {zone: ../../etc/passwd}}"), "has to be a time zone"),
        (("reason: No.", "reason: No.\n    when: {spent: {}}"), "needs one of cost_usd, tokens, steps"),
        (("reason: No.", "reason: No.\n    unless: {}"), "`unless` needs at least one field"),
        (("reason: No.", "reason: No.\n    arguments: {a: 1}"), "need `verdict: constrain`"),
        (("verdict: block", "verdict: constrain"), "needs `arguments`, `computed` or `timeout_s`"),
        (("verdict: block", "verdict: require_approval\n    point: model"), "a model call cannot wait for an approval"),
        (("reason: No.", "reason: No.\n    condition: 1 +"), ":6: rule 'first': its condition is not CEL: at 1:"),
        (("reason: No.", "reason: No.\n    condition: tool"), "its condition has to be true or false"),
        (("reason: No.", f"reason: No.\n    condition: {'a' * 2001}"), "condition: string should have at most"),
        (("reason: No.", "reason: No.\n    labels: [from:x]"), "has to be small letters, digits, '-', '_' and '.'"),
        (("rules:", "defalt: block\nrules:"), "policy.yaml:2: defalt: there is no such field. Did you mean 'default'?"),
        (("rules:", "default: constrain\nrules:"), "default: has to be 'allow', 'require_approval', 'block' or 'halt'"),
        (
            ("rules:", "switched_off: [rule-of-to]\nrules:"),
            "policy.yaml:2: there is no shipped rule 'rule-of-to' to switch off. Did you mean 'rule-of-two'?",
        ),
        (("rules:", "rules: [&a [*a]]\nx:"), "policy.yaml"),
        (("rules:", "- rules:"), "policy.yaml"),
        (("rules:", "rules: 7\nmore:"), "policy.yaml:3: more: there is no such field"),
        (("verdict: block", "\tverdict: block"), "is not YAML"),
        (("verdict: block", "verdict: !!python/object:os.system block"), "is not plain data"),
        (("reason: No.", "reason: No.\n    reason: Yes."), "written twice"),
    ],
)
def test_a_file_that_cannot_be_used_names_line_and_rule(tmp_path, change, problem):
    message = problem_of(tmp_path, RULE.replace(*change))

    assert problem in message
    assert message.startswith("policy.yaml")


def test_two_rules_of_one_name_are_refused(tmp_path):
    text = RULE + RULE.removeprefix("\nrules:\n")

    assert "policy.yaml:6: rule 'first'" in problem_of(tmp_path, text)


def test_two_rules_that_contradict_each_other_are_refused(tmp_path):
    match = "when: {tools: [pay, mail]}\n    condition: arguments.a  > 1\n    verdict: halt"
    alike = "when: {tools: [mail, pay]}\n    condition: >-\n      arguments.a >\n      1\n    verdict: block"
    text = RULE.replace("verdict: block", match) + RULE.replace("verdict: block", alike).replace("first", "second")[8:]

    problem = problem_of(tmp_path, text)

    assert "rule 'second': contradicts rule 'first'" in problem
    assert "says `halt` where this one says `block`" in problem


def test_rules_of_a_folder_are_one_policy(tmp_path):
    (tmp_path / "a.yaml").write_text(RULE)
    (tmp_path / "b.yaml").write_text(RULE.replace("first", "second"))
    (tmp_path / "notes.txt").write_text("no policy")

    policy = read_policy([tmp_path])

    assert [rule.name for rule in policy.rules] == ["rule-of-two", "first", "second"]


def test_files_that_contradict_each_other_by_default_are_refused(tmp_path):
    (tmp_path / "a.yaml").write_text("default: block\n")
    (tmp_path / "b.yaml").write_text("default: allow\n")

    with pytest.raises(PolicyInvalid, match="`default: allow` contradicts `default: block`"):
        read_policy([tmp_path])


def test_a_policy_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(PolicyInvalid, match="is not there; create it, or correct CALLBOARD_POLICY"):
        read_policy([tmp_path / "missing.yaml"])


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n", "rules: []\n"])
def test_an_empty_policy_has_the_shipped_rules(tmp_path, text):
    path = tmp_path / "policy.yaml"
    path.write_text(text)

    assert [rule.name for rule in read_policy([path]).rules] == ["rule-of-two"]


def test_a_policy_without_fields_is_told_what_to_begin_with(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text("- a rule\n")

    with pytest.raises(
        PolicyInvalid, match=r"policy\.yaml:1: has no fields; begin with `rules:` and a list of rules\."
    ):
        read_policy([path])


def test_a_thousand_rules_are_read_in_time(tmp_path):
    rules = [
        f"  - {{name: r{number}, when: {{tools: [t{number}]}}, verdict: block, reason: 'No.'}}"
        for number in range(1000)
    ]
    path = tmp_path / "policy.yaml"
    path.write_text("rules:\n" + "\n".join(rules))
    started = time.perf_counter()

    assert len(read_policy([path]).rules) == 1001
    assert time.perf_counter() - started < 3


def test_more_rules_than_the_limit_are_refused(tmp_path):
    rules = ["  - {name: r, verdict: block, reason: x}" for _ in range(1001)]

    assert "at most 1000" in problem_of(tmp_path, "rules:\n" + "\n".join(rules))


@pytest.mark.parametrize("other", ["arguments: {limit: 2}", "computed: {limit: '1'}"])
def test_two_rules_that_give_an_argument_different_values_are_refused(tmp_path, other):
    first = RULE.replace("verdict: block", "verdict: constrain\n    arguments: {limit: 1}")
    second = RULE.replace("verdict: block", f"verdict: constrain\n    {other}").replace("first", "second")[8:]

    assert "rule 'second': contradicts rule 'first'" in problem_of(tmp_path, first + second)


def test_a_file_that_is_no_file_or_too_large_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "policy.yaml")
    with pytest.raises(PolicyInvalid, match="is not a regular file"):
        read_policy([tmp_path])
    (tmp_path / "policy.yaml").unlink()
    with (tmp_path / "policy.yaml").open("wb") as file:
        file.truncate(1 << 30)

    with pytest.raises(PolicyInvalid, match="make it shorter"):
        read_policy([tmp_path])


VALID = "rules: [{name: one, verdict: block, reason: 'No.'}]"


def test_an_edited_policy_counts_at_once(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text("rules: []")
    source = PolicySource([path])
    before = source.current()

    path.write_text(VALID)

    assert source.current().version != before.version
    assert source.current() is source.current()


def test_a_policy_that_is_edited_into_an_invalid_one_stays_in_force(tmp_path, caplog):
    path = tmp_path / "policy.yaml"
    path.write_text(VALID)
    source = PolicySource([path])
    before = source.current()

    with caplog.at_level(logging.ERROR):
        path.write_text(VALID.replace("block", "forbid"))
        assert source.current() is before is source.current()
        path.unlink()
        assert source.current() is before

    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert "rule 'one': verdict: has to be" in caplog.records[0].getMessage()


def test_a_process_that_begins_with_an_invalid_policy_has_none(tmp_path):
    source = PolicySource([tmp_path / "missing.yaml"])

    with pytest.raises(PolicyInvalid):
        source.current()


def test_no_files_are_the_shipped_rules():
    assert [rule.name for rule in PolicySource([]).current().rules] == ["rule-of-two"]
