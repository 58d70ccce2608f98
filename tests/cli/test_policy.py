"""`policy check`, `policy test` and `runs --decisions`, as a person types them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from cli.main import status_of
from config.database.migrate import migrate
from config.settings import Settings

AGENT = """\
name: Tester
model: demo/assistant
system_prompt: You are a test.
tools: ['tests.agents.sample_tools:add']
"""
Type = Callable[..., int]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text("rules: []")
    return path


@pytest.fixture
def type_(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Type]:
    """Type a command into this test's own state folder, whose policy is ``file``; returns its exit status."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "tester.yaml").write_text(AGENT)
    before = Path.cwd()
    monkeypatch.setenv("CALLBOARD_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("CALLBOARD_AGENTS_DIR", str(tmp_path / "agents"))
    monkeypatch.setenv("CALLBOARD_DEFAULT_AGENT", "tester")
    monkeypatch.setenv("CALLBOARD_POLICY", str(file))
    migrate(Settings(state_dir=tmp_path / "state"))
    yield lambda *words: status_of(list(words))
    os.chdir(before)


@pytest.fixture
def printed(type_: Type, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Type a command with --json and return what it prints."""

    def print_(*words: str) -> Any:
        capsys.readouterr()
        assert type_(*words, "--json") == 0
        return orjson.loads(capsys.readouterr().out)

    return print_


SUMS = """
rules:
  - {name: large-sums, when: {tools: [add]}, condition: arguments.a > 10, verdict: block, reason: Too large.}
  - {name: no-mail, when: {tools: [mail]}, verdict: block, reason: No.}
  - {name: noted, when: {tools: ["*"]}, verdict: allow, reason: All of them.}
  - {name: dear-models, point: model, when: {spent: {cost_usd: 1}}, verdict: halt, reason: Too dear.}
"""


def test_a_policy_that_can_be_used_is_listed_with_its_places(type_: Type, file: Path, capsys: Any) -> None:
    file.write_text(SUMS)

    assert type_("policy", "check") == 0

    output = capsys.readouterr()
    assert "rules: 5, version " in output.err
    lines = output.out.splitlines()
    assert lines[:2] == [
        "rule-of-two\trequire_approval\tagents/governance/policy/shipped.yaml:3",
        f"large-sums\tblock\t{file}:3",
    ]


def test_a_mistake_is_named_with_file_line_and_rule(type_: Type, file: Path, capsys: Any) -> None:
    file.write_text(SUMS.replace("arguments.a > 10", "argument.a > 10"))

    assert type_("policy", "check") == 1

    err = capsys.readouterr().err
    assert f"{file}:3: rule 'large-sums': its condition is not CEL: at 1:9: undeclared reference to 'argument.a'" in err
    assert "policy_invalid" in err


@pytest.mark.parametrize(("condition", "problem"), [("1 > 2", "never true"), ("true || arguments.a", "always true")])
def test_a_condition_that_is_the_same_for_every_call_is_named(
    type_: Type, file: Path, capsys: Any, condition: str, problem: str
) -> None:
    file.write_text(SUMS.replace("arguments.a > 10", condition))

    assert type_("policy", "check") == 0

    assert f"rule 'large-sums': its condition is {problem}" in capsys.readouterr().err


def test_a_typo_is_said_with_the_nearest_name(type_: Type, file: Path, printed: Any, capsys: Any) -> None:
    file.write_text(
        SUMS.replace("tools: [add]", "tools: [ad]").replace("tools: [mail]", "tools: [add], labels: [untrustd]")
    )

    report = printed("policy", "check")

    warnings = " ".join(report["warnings"])
    assert "rule 'large-sums': `when.tools` has 'ad', which is no tool." in warnings
    assert (
        "rule 'no-mail': `when.labels` has 'untrustd', a label of no tool and no rule. Did you mean 'untrusted'?"
        in warnings
    )
    file.write_text(SUMS.replace("arguments.a > 10", "arguments.aa > 10"))
    assert type_("policy", "check") == 0
    assert "rule 'large-sums': 'aa' is no argument of add. Did you mean 'a'?" in capsys.readouterr().err


def test_a_dry_run_says_of_which_rules_the_condition_fails(type_: Type, file: Path, printed: Any) -> None:
    type_("tools", "call", "add", '{"a": 50, "b": 1}')
    file.write_text(SUMS.replace("arguments.a > 10", "arguments.aa > 10"))

    rules = {rule["name"]: rule for rule in printed("policy", "test")["rules"]}

    large = rules["large-sums"]
    assert (large["matches"], large["decides"], large["remark"]) == (1, 1, "its condition fails for 1")


def test_a_dry_run_says_what_would_differ_and_calls_nothing(type_: Type, file: Path, printed: Any, capsys: Any) -> None:
    type_("tools", "call", "add", '{"a": 50, "b": 1}')
    type_("tools", "call", "add", '{"a": 5, "b": 1}')
    file.write_text(SUMS)

    report = printed("policy", "test")

    assert (report["runs"], report["calls"]) == (2, {"tool": 2, "model": 0})
    assert [(rule["name"], rule["matches"], rule["decides"], rule["remark"]) for rule in report["rules"]] == [
        ("rule-of-two", 0, 0, "fits none of these calls"),
        ("large-sums", 1, 1, None),
        ("no-mail", 0, 0, "fits none of these calls"),
        ("noted", 2, 1, "fits each of these calls"),
        ("dear-models", 0, 0, "no call of a model to try it with"),
    ]
    (difference,) = report["differences"]
    assert (difference["then"], difference["now"]["verdict"]) == ({"verdict": "allow", "rule": "default"}, "block")
    capsys.readouterr()
    assert type_("policy", "test") == 0
    output = capsys.readouterr().out
    assert "\tadd\tallow (default)\tblock (large-sums)\tToo large.\n" in output
    assert "no-mail\t0\t0\tfits none of these calls\n" in output


def test_a_dry_run_repeats_what_was_decided(type_: Type, file: Path, printed: Any) -> None:
    file.write_text(
        SUMS + "  - {name: small, when: {tools: [add]}, verdict: constrain, arguments: {b: 9}, reason: So.}"
    )
    type_("tools", "call", "add", '{"a": 50, "b": 1}')
    type_("tools", "call", "add", '{"a": 5, "b": 1}')

    assert printed("policy", "test")["differences"] == []


def test_the_decisions_of_a_run_are_listed(type_: Type, file: Path, printed: Any, capsys: Any) -> None:
    file.write_text(SUMS)
    type_("tools", "call", "add", '{"a": 50, "b": 1}')
    (run,) = printed("runs")

    (decision,) = printed("runs", "--decisions", run["run_id"])

    assert (decision["point"], decision["name"], decision["number"]) == ("tool", "add", 1)
    assert (decision["verdict"], decision["rule"], decision["reason"]) == ("block", "large-sums", "Too large.")
    capsys.readouterr()
    assert type_("runs", "--decisions", run["run_id"]) == 0
    assert capsys.readouterr().out == "1\ttool\tadd\tblock\tlarge-sums\tToo large.\n"
    assert type_("runs", "--decisions", "run_unknown") == 2


def test_one_run_is_tried(type_: Type, file: Path, printed: Any) -> None:
    type_("tools", "call", "add", '{"a": 50, "b": 1}')
    type_("tools", "call", "add", '{"a": 60, "b": 1}')
    first = printed("runs")[-1]["run_id"]
    file.write_text(SUMS)

    report = printed("policy", "test", first)

    assert (report["runs"], [difference["run_id"] for difference in report["differences"]]) == (1, [first])
