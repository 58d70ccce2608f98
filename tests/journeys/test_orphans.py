"""Processes that call capabilities are killed at any moment, many times: no program and no container outlives them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from config.folders import ROOT
from tests.agents.capabilities.runners.machines import (
    container_engine,
    containers,
    eventually,
    import_image,
    processes_with,
)

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(600)]

END_S = 60.0
"""Seconds that guards may take to end what they started, on a busy machine."""


@contextmanager
def killing(number: int, seed: int, mark: str, kind: str, folder: Path, *engine: str) -> Iterator[None]:
    """Kill so many processes in the middle of a call, while the body runs and until all are killed."""
    module = "tests.agents.capabilities.runners.victims"
    words = [sys.executable, "-m", module, str(seed), str(number), mark, kind, str(folder), *engine]
    with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        yield
        assert process.wait(500) == 0


def test_two_hundred_killed_calls_leave_no_process(tmp_path: Path) -> None:
    mark = f"run_orphans_{tmp_path.name}"
    ours = f"CALLBOARD_RUN_ID={mark}"

    with killing(200, 7, mark, "process", tmp_path):
        assert eventually(lambda: processes_with(ours), END_S)

    assert eventually(lambda: not processes_with(ours), END_S)


def test_two_hundred_killed_calls_leave_no_container(tmp_path: Path) -> None:
    mark, engine = f"run_orphans_{tmp_path.name}", container_engine(tmp_path)
    ours = f"CALLBOARD_RUN_ID={mark}"
    import_image(engine, tmp_path, "callboard-test:1")

    with killing(200, 8, mark, "container", tmp_path, engine):
        assert eventually(lambda: containers(engine), END_S)

    assert eventually(lambda: not processes_with(ours), END_S)
    assert eventually(lambda: containers(engine) == [], END_S), containers(engine)
