"""`doctor --probe`: one small call of each model, and none without the flag."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.main import status_of
from config.database.migrate import migrate
from config.settings import Settings
from tests.app_harness import write_agent
from tests.model_server import ModelServer, Turn

pytestmark = pytest.mark.parity


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    before = Path.cwd()
    with ModelServer() as server:
        write_agent(tmp_path / "agents", server, provider="openai")
        monkeypatch.setenv("CALLBOARD_STATE_DIR", str(tmp_path / "state"))
        monkeypatch.setenv("CALLBOARD_AGENTS_DIR", str(tmp_path / "agents"))
        migrate(Settings(state_dir=tmp_path / "state"))
        yield server
    os.chdir(before)


def test_a_probe_says_what_it_spends_and_how_fast_the_model_is(
    model: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    model.script([Turn(text="yes")])

    status_of(["doctor", "--probe"])

    output = capsys.readouterr()
    assert "asking for one word, which providers charge: openai/gpt-5-mini" in output.err
    assert "first token after" in output.out
    assert len(model.requests) == 1
    assert 64 in (model.requests[0].body.get(name) for name in ("max_tokens", "max_completion_tokens"))


def test_a_model_that_refuses_is_a_failure(model: ModelServer, capsys: pytest.CaptureFixture[str]) -> None:
    model.script([Turn(status=400)])

    assert status_of(["doctor", "--probe"]) == 1

    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("fail probe")]


def test_without_the_flag_no_model_is_asked(model: ModelServer) -> None:
    status_of(["doctor"])

    assert model.requests == []


def test_an_agent_is_shown_with_its_tools_limits_and_versions(
    model: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(["agents", "show", "tester"]) == 0

    text = capsys.readouterr().out
    assert "at most 8 with tools" in text
    assert "in its file" in text
    assert status_of(["agents", "show", "testr"]) == 2
    assert "Did you mean 'tester'?" in capsys.readouterr().err
