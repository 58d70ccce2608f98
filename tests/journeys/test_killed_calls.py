"""Workers that are killed in the middle of calls of programs and containers leave neither behind."""

import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from config.folders import ROOT
from tests.agents.tools.runners import machines
from tests.agents.tools.runners.machines import containers, eventually, processes_with
from tests.fleet import bare_environment

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(600)]

EACH = 100
"""Killed calls of each kind, 200 in all."""
VICTIMS = Path(machines.__file__).with_name("victims.py")


def kill(number, kind, folder, *engine):
    """Have so many calls killed; return the mark of their processes, and what is printed about it."""
    mark, began_s = f"run_{uuid.uuid4().hex[:8]}", time.monotonic()
    command = [sys.executable, str(VICTIMS), "1", str(number), mark, kind, str(folder), *engine]
    environment = bare_environment(PATH="/usr/bin:/bin:/usr/sbin:/sbin")
    done = subprocess.run(command, check=True, cwd=ROOT, env=environment, capture_output=True, text=True)
    at_work = int(done.stdout)
    assert at_work > number / 10, "too few of the programs had begun"
    return (
        mark,
        f"{number} killed calls, of which {at_work} had begun their program, in {time.monotonic() - began_s:.1f} s",
    )


def test_100_killed_calls_of_a_program_leave_no_process(tmp_path):
    mark, killed = kill(EACH, "process", tmp_path)

    eventually(lambda: not processes_with(f"CALLBOARD_RUN_ID={mark}"), 30)
    left = processes_with(f"CALLBOARD_RUN_ID={mark}")
    print(f"\nprograms: {killed}: {len(left)} processes left")
    assert left == []


def test_100_killed_calls_of_containers_leave_no_container_and_no_process(tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed")
    engine = machines.container_engine(folder)
    machines.import_image(engine, folder, "callboard-test:1")

    mark, killed = kill(EACH, "container", folder, engine)

    eventually(lambda: not containers(engine) and not processes_with(f"CALLBOARD_RUN_ID={mark}"), 90)
    left, processes = containers(engine), processes_with(f"CALLBOARD_RUN_ID={mark}")
    print(f"\ncontainers: {killed}: {len(left)} containers and {len(processes)} processes left")
    assert left == []
    assert processes == []
    assert not any("conmon" in line and str(folder) in line for line in command_lines())


def command_lines():
    return subprocess.run(["ps", "-eo", "args"], check=True, capture_output=True, text=True).stdout.splitlines()
