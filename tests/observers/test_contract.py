"""The contract kit: the shipped observers keep the contract, and each mistake that it knows is found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from config.folders import ROOT
from tests.fleet import bare_environment

pytestmark = pytest.mark.parity
GOOD = """
from observers.base import AgentObserver
class Good(AgentObserver):
    def __init__(self): self.steps = {}
    def on_message(self, agent, payload, context): self.steps[context.run_id] = self.steps.get(context.run_id, 0) + 1
    def on_end(self, agent, payload, context): self.steps.pop(context.run_id, None)
"""
FORGETFUL = GOOD.replace(
    "self.steps[context.run_id] = self.steps.get(context.run_id, 0) + 1", "self.steps[1] = 1"
).replace("self.steps.pop(context.run_id, None)", "self.steps.pop(context.run_id)")
HOARDING = GOOD.replace("self.steps.pop(context.run_id, None)", "pass")
ONCE = HOARDING.replace("= self.steps.get(context.run_id, 0) + 1", "= 1 if context.run_id not in self.steps else 1 / 0")


def held_to(folder: Path, observer: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.toml").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-c", str(folder / "pytest.toml"), "-q", "-p", "observers.testing"]
    command += ["-p", "no:cacheprovider", "-x", "--observer", observer]
    env = bare_environment(PYTHONPATH=f"{ROOT}:{folder}", CALLBOARD_TOOL_MODULES="mine")
    env |= {"CALLBOARD_STATE_DIR": str(folder / "state")}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("observer", ["logger", "metrics", "signals"])
def test_a_shipped_observer_keeps_the_contract(tmp_path: Path, observer: str):
    answer = held_to(tmp_path, observer)

    assert "9 passed" in answer.stdout, answer.stdout


def test_an_observer_of_ones_own_keeps_it(tmp_path: Path):
    (tmp_path / "mine.py").write_text(GOOD)

    answer = held_to(tmp_path, "mine:Good")

    assert "9 passed" in answer.stdout, answer.stdout


@pytest.mark.parametrize(
    ("source", "test"),
    [
        (FORGETFUL, "test_it_takes_a_whole_run"),
        (HOARDING, "test_it_forgets_runs_that_ended"),
        (ONCE, "test_it_takes_events_that_come_again"),
    ],
)
def test_a_mistake_is_found(tmp_path: Path, source: str, test: str):
    (tmp_path / "mine.py").write_text(source)

    answer = held_to(tmp_path, "mine:Good")

    assert answer.returncode == 1
    assert f"FAILED ::{test}" in answer.stdout or f"::{test} " in answer.stdout


def test_a_misspelt_observer_is_one_sentence(tmp_path: Path):
    (tmp_path / "mine.py").write_text(GOOD)

    answer = held_to(tmp_path, "mine:Goood")

    assert answer.returncode != 0
    assert "ERROR: " in answer.stdout + answer.stderr
    assert "Goood" in answer.stdout + answer.stderr
    assert "Traceback" not in answer.stdout + answer.stderr
