"""`webhooks` and the doctor's check of them: what is listed, and what is wrong with each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.doctor.agents import check_webhooks
from cli.main import status_of
from config.settings import Settings

pytestmark = pytest.mark.parity

AGENT = "name: A\nmodel: demo/assistant\nsystem_prompt: You answer.\n"
FLOW = "name: W\nnodes: [{id: start, type: START}, {id: end, type: END}]\nedges: [{source: start, target: end}]\n"
HEAD = "format: github\nsecret: ${HOOK_SECRET}\n"
FILES = {
    "good": HEAD + "start: {agent: clerk, input: '{{ body.x }}'}\n",
    "flow": HEAD + "start: {workflow: flow, input: {}}\n",
    "signals": HEAD + "tenant: acme\nprincipal: ci\nsignal: {run: '{{ body.run }}', name: done}\n",
    "unknown": HEAD + "start: {agent: clark, input: x}\n",
    "mixed": HEAD + "start: {agent: flow, input: x}\n",
    "foreign": HEAD + "start: {agent: private, input: x}\n",
    "keyless": "format: standard\nsecret: [secret://missing]\nstart: {agent: clerk, input: x}\n",
    "weak": "format: standard\nsecret: ${HOOK_SECRET}\nstart: {agent: clerk, input: x}\n",
    "broken": HEAD + "start: {agent: clerk, input: '{{ nodes.x }}'}\n",
}
PROBLEMS = {
    "unknown": "Did you mean 'clerk'?",
    "mixed": "'flow' is of the kind workflow; write `workflow: flow`.",
    "foreign": "the `access` of 'private' does not let 'foreign' of tenant 'default' start it",
    "keyless": "secret: secret://missing is missing or empty for the web process",
    "weak": "secret: env:HOOK_SECRET is no secret of Standard Webhooks",
    "broken": "broken.yaml:3: start.input: names `nodes`",
}


@pytest.fixture
def chosen(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    agents, webhooks = tmp_path / "agents", tmp_path / "webhooks"
    agents.mkdir(exist_ok=True)
    webhooks.mkdir()
    (agents / "clerk.yaml").write_text(AGENT)
    (agents / "flow.yaml").write_text(FLOW)
    (agents / "private.yaml").write_text(AGENT + "access: {principals: [ana]}\n")
    for name, text in FILES.items():
        (webhooks / f"{name}.yaml").write_text(text)
    monkeypatch.setenv("HOOK_SECRET", "not base64!")
    monkeypatch.setenv("CALLBOARD_WEBHOOKS_DIR", str(webhooks))
    monkeypatch.setenv("CALLBOARD_AGENTS_DIR", str(agents))
    return settings.model_copy(update={"agents_dir": str(agents), "webhooks_dir": str(webhooks)})


def test_the_doctor_names_what_would_refuse_every_delivery(chosen: Settings) -> None:
    findings = list(check_webhooks(chosen))

    texts = [text for verdict, text in findings if verdict == "fail"]
    assert [text for verdict, text in findings if verdict == "ok"] == [
        "flow: starts workflow flow",
        "good: starts agent clerk",
        "signals: gives a signal",
    ]
    assert len(texts) == len(PROBLEMS)
    for name, problem in PROBLEMS.items():
        assert any(f"{name}.yaml" in text and problem in text for text in texts), (problem, texts)
    assert "not base64" not in str(texts)


def test_the_command_lists_addresses_and_problems(chosen: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["webhooks"]) == 1
    listing = capsys.readouterr()
    assert status_of(["webhooks", "--json"]) == 1
    rows = {row.get("name", "broken"): row for row in json.loads(capsys.readouterr().out)}

    assert "/v1/webhooks/signals" in listing.out
    assert "\tci of acme\tgives a signal" in listing.out
    assert all(problem in listing.err for problem in PROBLEMS.values())
    assert set(rows) == set(FILES)
    assert {name for name, row in rows.items() if "problem" in row} == set(PROBLEMS)


def test_without_a_webhook_it_says_where_they_are_looked_for(
    chosen: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CALLBOARD_WEBHOOKS_DIR", str(tmp_path / "none"))

    assert status_of(["webhooks"]) == 0
    assert str(tmp_path / "none") in capsys.readouterr().err
