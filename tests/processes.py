"""Processes of Python that tests run to their end, and what a process may lack."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run_python(
    *arguments: str, env: Mapping[str, str] | None = None, cwd: Path = ROOT, timeout_s: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run this interpreter to its end, without input, and return its status and the texts it printed."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=env,
        timeout=timeout_s,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def folder_variables(folder: Path) -> dict[str, str]:
    """Return the variables that put a process's files and agents into ``folder``."""
    return {"CALLBOARD_STATE_DIR": str(folder / "state"), "CALLBOARD_AGENTS_DIR": str(folder / "agents")}


@contextmanager
def no_free_file() -> Iterator[None]:
    """This process has no free file descriptor, so that each ``open`` fails with EMFILE."""
    lowest_free = os.dup(0)
    os.close(lowest_free)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
