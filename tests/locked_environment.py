"""Environments of the tests' own inside ``.venv``, each with what one lock names: made when they are first needed."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from config.folders import ROOT


class LockedEnvironment:
    """The virtual environment of programs whose dependencies differ from ours."""

    def __init__(self, name: str, lock: Path) -> None:
        self.lock = lock
        self.folder = ROOT / ".venv" / name
        self.python = self.folder / "bin" / "python"

    def ready(self) -> Path:
        """Return its Python, with what the lock names installed.

        Raises:
            CalledProcessError: it cannot be installed; ``stderr`` has the reason.
        """
        stamp, digest = self.folder.with_suffix(".digest"), hashlib.sha256(self.lock.read_bytes()).hexdigest()
        with self.folder.with_suffix(".lock").open("w") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)  # another test process may be at it
            if not stamp.exists() or stamp.read_text() != digest:
                self._install()
                stamp.write_text(digest)
        return self.python

    def _install(self) -> None:
        uv = shutil.which("uv")
        if uv is not None:
            _run(uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(self.folder))
            python = ("--python", str(self.python))
            _run(uv, "pip", "install", "--quiet", *python, "--no-deps", "--require-hashes", "-r", str(self.lock))
            return
        _run(sys.executable, "-m", "venv", "--clear", str(self.folder))
        quiet = ("--quiet", "--disable-pip-version-check", "--no-compile")
        pip = (str(self.python), "-m", "pip", "install", *quiet)
        _run(*pip, "--no-deps", "--require-hashes", "-r", str(self.lock))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
