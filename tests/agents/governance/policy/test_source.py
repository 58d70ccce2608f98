"""A policy whose files are edited while a process runs."""

import logging

import pytest

from agents.governance.policy.errors import PolicyInvalid
from agents.governance.policy.source import PolicySource

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
