"""Ctrl-C while no command handles it, and the quick end of the process after a command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from config.folders import ROOT
from tests.bench.processes import clean_environment
from tests.fleet import bare_environment
from tests.processes import run_python

pytestmark = pytest.mark.parity

PRESSES = """
import os, signal, sys

class Press:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["PRESS_AT"]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Press())
if os.environ["PRESS_AT"] == "start" and sys.flags.safe_path:
    os.kill(os.getpid(), signal.SIGINT)
"""
"""A `sitecustomize`: sends SIGINT when a module is about to be imported, or before the program's first line."""

LAUNCHER = """
import sys
from importlib.machinery import SourceFileLoader
launcher = SourceFileLoader("launcher", "callboard").load_module()
launcher.PYTHON = sys.executable
launcher.installed_digest = launcher.wanted_digest
launcher.main(["doctor"])
"""


@pytest.mark.parametrize("location", ["start", "runpy", "click", "config.errors", "cli.commands.doctor", "litellm"])
def test_ctrl_c_during_imports_ends_without_a_word(location: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(PRESSES)
    environment = {
        **clean_environment(),
        "PYTHONPATH": f"{tmp_path}:{ROOT}",
        "PRESS_AT": location,
        "CALLBOARD_STATE_DIR": str(tmp_path / "state"),
        "PYTHONWARNINGS": "ignore",
        "ANTHROPIC_API_KEY": "none",  # with a key the doctor imports LiteLLM
    }

    ran = subprocess.run(
        [sys.executable, "-c", LAUNCHER], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )

    assert ran.stderr.strip() == ""
    assert ran.returncode == 130


PLUGIN = """
import atexit
from observers.base import AgentObserver

class Telling:
    def __del__(self):
        print("torn down")

class Ledger(AgentObserver):
    name = "ledger"
    kept = Telling()

atexit.register(print, "handled")
"""


@pytest.mark.parametrize(("pool", "status"), [("threads", 0), ("gevent", 1)])
def test_exit_handlers_run_and_nothing_is_torn_down(tmp_path: Path, pool: str, status: int) -> None:
    (tmp_path / "ledger.py").write_text(PLUGIN)
    environment = bare_environment(
        CALLBOARD_STATE_DIR=str(tmp_path / "state"),
        CALLBOARD_PLUGINS="ledger:Ledger",
        CELERY_WORKER_POOL=pool,
    )
    environment["PYTHONPATH"] += f":{tmp_path}"

    ran = run_python("-P", "-m", "cli", "doctor", env=environment)

    assert ran.returncode == status, ran.stderr
    assert ran.stdout.endswith("handled\n")
    assert "torn down" not in ran.stdout + ran.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
def test_what_could_not_be_written_is_no_success() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-P", "-m", "cli", "--version"]
        ran = subprocess.run(
            command, env=bare_environment(), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )

    assert ran.returncode not in (0, 1)
    assert "No space left" in ran.stderr
