"""The environment of the tests' OpenID Connect provider, inside ``.venv``: made when it is first needed.

``python -m tests.identity_provider.environment`` makes it beforehand.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from config.folders import ROOT

LOCK = Path(__file__).parent / "requirements.lock"
FOLDER = ROOT / ".venv" / "identity-provider"
PYTHON = FOLDER / "bin" / "python"


def ready() -> Path:
    """Return its Python, with what the lock names installed.

    Raises:
        CalledProcessError: it cannot be installed; ``stderr`` has the reason.
    """
    stamp, digest = FOLDER.with_suffix(".digest"), hashlib.sha256(LOCK.read_bytes()).hexdigest()
    with FOLDER.with_suffix(".lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # another test process may be at it
        if not stamp.exists() or stamp.read_text() != digest:
            _install()
            stamp.write_text(digest)
    return PYTHON


def _install() -> None:
    uv = shutil.which("uv")
    if uv is not None:
        _run(uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(FOLDER))
        _run(uv, "pip", "install", "--quiet", "--python", str(PYTHON), "--require-hashes", "-r", str(LOCK))
        return
    _run(sys.executable, "-m", "venv", "--clear", str(FOLDER))
    pip = (str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    _run(*pip, "--require-hashes", "-r", str(LOCK))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


if __name__ == "__main__":
    print(ready())
