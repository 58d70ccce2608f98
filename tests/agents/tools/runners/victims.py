"""A program that forks processes which call a runner, and kills each with SIGKILL at a random moment of the call.

``python victims.py SEED NUMBER MARK KIND FOLDER [ENGINE]``; the calls have ``CALLBOARD_RUN_ID=MARK``. It prints how
many of the calls had begun their program.
"""

import asyncio
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from agents.tools.call_context import ToolContext, enter_call
from agents.tools.isolation.call_folder import CallSandbox
from agents.tools.runners.calling import ProcessRunner
from agents.tools.runners.container import Container, ContainerRunner
from config.settings.container_engine import engine_of

BEHAVE = Path(__file__).with_name("behave.sh")
AT_ONCE = 8


def runner_of(kind, folder, engine):
    if kind == "process":
        return ProcessRunner(folders=Path(folder) / "calls", command=["/bin/sh", str(BEHAVE)])
    box = Container(image="callboard-test:1", command=("/bin/sh", "/behave.sh"))
    return ContainerRunner(engine=engine_of(engine), container=box)


def call_for_ever(runner, mark, folder, do):
    ids: dict[str, Any] = {name: f"{name}_{os.getpid()}" for name in ("thread_id", "call_id", "idempotency_key")}
    enter_call(
        ToolContext(run_id=mark, **ids, tenant="default", principal="local", files=CallSandbox(folder), timeout_s=60)
    )
    asyncio.run(runner.call(do=do))


def has_begun(pid):
    """Return whether the program of a victim's call is at work, in a container or not."""
    try:
        return any(child.name() == "sleep" for child in psutil.Process(pid).children(recursive=True))
    except psutil.Error:
        return False


def main():
    seed, number, mark, kind, folder = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:6]
    chance, runner = random.Random(seed), runner_of(kind, folder, sys.argv[6] if kind == "container" else "")
    longest_s = 0.6 if kind == "process" else 3.0
    due: dict[int, float] = {}
    begun = at_work = 0
    while begun < number or due:
        while begun < number and len(due) < AT_ONCE:
            do = chance.choice(["sleep", "family", "stubborn", "daemon"])
            pid = os.fork()
            if pid == 0:
                call_for_ever(runner, mark, Path(folder), do)
                signal.pause()
            due[pid] = time.monotonic() + chance.uniform(0, longest_s)
            begun += 1
        for pid in [pid for pid, at_s in due.items() if at_s <= time.monotonic()]:
            at_work += has_begun(pid)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            del due[pid]
        time.sleep(0.002)
    print(at_work)


if __name__ == "__main__":
    main()
