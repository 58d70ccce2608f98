"""Virtual environments of tests' own, as users of other projects have them."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

from config.folders import ROOT

INSTALL_S = 240


class Venv:
    """An environment with nothing of Callboard's. Our pip installs into it: making one with a pip takes 5 s."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        command = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
        subprocess.run(command, check=True, timeout=INSTALL_S)
        self.python = str(folder / "bin" / "python")

    def install(self, *what: str) -> None:
        """Install packages from the index, or from files; Python compiles what a test imports, and nothing else."""
        self._pip("install", "--quiet", "--no-compile", *what)

    def packages(self) -> set[str]:
        """Return the names of what is installed."""
        [site] = self.folder.glob("lib/python*/site-packages")
        return {distribution.metadata["Name"] for distribution in distributions(path=[str(site)])}

    def run(self, code: str, *, cwd: Path, **environment: str) -> str:
        """Run a program in a folder and return what it printed."""
        return self._said(self.python, "-c", code, cwd=cwd, **environment)

    def _pip(self, *arguments: str) -> str:
        ours = (sys.executable, "-m", "pip", "--python", self.python, "--disable-pip-version-check")
        return self._said(*ours, *arguments, cwd=self.folder)

    def _said(self, *command: str, cwd: Path, **environment: str) -> str:
        ran = subprocess.run(
            command,
            env=foreign_environment(**environment),
            cwd=cwd,
            timeout=INSTALL_S,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout


def foreign_environment(**more: str) -> dict[str, str]:
    """Return the environment of another project's process: the settings of pip, and nothing of Callboard's."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("CALLBOARD_", "PYTHON"))}
    return variables | more


def build_client(folder: Path) -> Path:
    """Return the wheel of the client, built from a copy of its folder unless another process has built it there."""
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not [*folder.glob("*.whl")]:
            _build_client(folder)
    [wheel] = folder.glob("*.whl")
    return wheel


def _build_client(folder: Path) -> None:
    copy = shutil.copytree(ROOT / "clients" / "python", folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    quiet = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation")
    command = (sys.executable, "-m", "pip", "wheel", *quiet, "--wheel-dir", str(folder), str(copy))
    subprocess.run(command, check=True, timeout=INSTALL_S, cwd=folder)
