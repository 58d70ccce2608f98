"""The public conformance suite of MCP, public servers and clients, inside ``.venv``: installed when first needed.

``python -m tests.mcp_suite.environment`` installs them beforehand.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from config.folders import ROOT
from tests.locked_environment import LockedEnvironment

SOURCE = Path(__file__).parent
FOLDER = ROOT / ".venv" / "mcp-suite"
MODULES = FOLDER / "node_modules"
_CPU = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine())
_HAS_OWN_NODE = platform.system() == "Linux" and _CPU is not None
NODE = MODULES / f"node-linux-{_CPU}" / "bin" / "node" if _HAS_OWN_NODE else Path(shutil.which("node") or "node")
"""The Node that the lock names, since the suite needs a newer one than Debian has; elsewhere the machine's."""
SUITE = MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
NEWEST = LockedEnvironment("mcp-newest", SOURCE / "newest.lock")
"""Python with fastmcp and the server `fetch`."""
OLDER = LockedEnvironment("mcp-older", SOURCE / "older.lock")
"""Python with the official SDK before its second version."""


def require_suite() -> None:
    """Return with what npm's lock names installed; without npm the test is skipped, and fails in CI."""
    if shutil.which("npm") is None and not os.environ.get("CI"):
        pytest.skip("npm is not installed")
    install()


def install() -> None:
    """Install what the lock names, if it is another than the installed one.

    Raises:
        CalledProcessError: it cannot be installed; ``stderr`` has the reason.
    """
    lock, installed = SOURCE / "package-lock.json", FOLDER / "installed.lock"
    with FOLDER.with_suffix(".lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # another test process may be at it
        if installed.exists() and installed.read_bytes() == lock.read_bytes():
            return
        FOLDER.mkdir(exist_ok=True)
        for file in (SOURCE / "package.json", lock):
            shutil.copy(file, FOLDER)
        command = ("npm", "ci", "--no-audit", "--no-fund", "--silent", "--ignore-scripts")
        subprocess.run(command, cwd=FOLDER, check=True, capture_output=True, text=True)
        shutil.copy(lock, installed)


if __name__ == "__main__":
    install()
    print(FOLDER, NEWEST.ready(), OLDER.ready())
