"""Ctrl-C while modules are imported, at places a test chooses: each is status 130 without a word."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from config.folders import ROOT
from tests.bench.processes import clean_environment

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
