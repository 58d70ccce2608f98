from __future__ import annotations

import pytest

from agents.models.auto import OLLAMA
from cli.doctor.agents import check_agents, check_model, check_policy
from config.settings import Settings
from tests.cli.doctor.conftest import only, verdicts

AGENT = "name: A\nmodel: demo/assistant\nsystem_prompt: You answer.\n"


@pytest.fixture
def configured(settings, tmp_path):
    def write(text: str):
        (tmp_path / "agents" / "assistant.yaml").write_text(text)
        return settings

    return write


def test_timeouts_that_fit_each_other_are_fine(configured):
    assert verdicts(check_agents(configured(AGENT))) == ["ok"]
    assert verdicts(check_agents(configured(AGENT + "timeouts: {total_s: 20}\n"))) == ["ok"]


def test_a_timeout_that_never_passes_is_reported_with_the_numbers(configured):
    by_verdict = dict(check_agents(configured(AGENT + "timeouts: {total_s: 20, first_token_s: 45}\n")))

    assert "timeouts.first_token_s (45) is longer than total_s (20)" in by_verdict["warn"]


def test_an_agent_that_cannot_be_read_fails(configured):
    assert "fail" in verdicts(check_agents(configured("name: [\n")))


def test_a_default_agent_that_is_not_there_fails(settings):
    by_verdict = dict(check_agents(settings.model_copy(update={"default_agent": "boss"})))

    assert "set it to one of assistant" in by_verdict["fail"]


def test_no_agents_are_a_warning(settings, tmp_path):
    (tmp_path / "empty").mkdir()

    assert only(check_agents(settings.model_copy(update={"agents_dir": str(tmp_path / "empty")})))[0] == "warn"


@pytest.mark.parametrize(("is_there", "verdict"), [(True, "ok"), (False, "warn")])
def test_a_model_that_ollama_does_not_have_is_offered(settings, monkeypatch, is_there, verdict):
    monkeypatch.setattr("cli.doctor.agents.resolve_model", lambda model, environment: OLLAMA)
    monkeypatch.setattr("cli.doctor.agents.has_model", lambda: is_there)

    outcome, text = only(check_model(settings))

    assert outcome == verdict
    assert ("`ollama pull llama3.2:3b`" in text) is not is_there


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
