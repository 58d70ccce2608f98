"""A command's process ends behind its exit handlers, without Python's teardown, and says what it could not write."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fleet import bare_environment
from tests.processes import run_python

pytestmark = pytest.mark.parity

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
