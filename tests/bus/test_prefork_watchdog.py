"""A pool's parent ends the child that is stopped, and no other process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.parity

ROOT = Path(__file__).parents[2]
PARENT = """
import os, signal, time
from bus.liveness import PreforkWatchdog

watchdog = PreforkWatchdog(5)

def child(*deeds):
    pid = os.fork()
    if pid:
        return pid
    assert watchdog.is_ours
    watchdog.beat()
    for deed in deeds:
        deed()
    while True:
        watchdog.beat()
        time.sleep(0.01)

def status_of(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

assert not watchdog.is_ours
lively = child()
stopped = child(lambda: os.kill(os.getpid(), signal.SIGSTOP))
dead = child(lambda: os._exit(3))
silent = os.fork()  # never gave a sign: it is not up yet
if not silent:
    signal.pause()

until = time.monotonic() + 30
while os.waitpid(stopped, os.WNOHANG | os.WUNTRACED)[0] == 0 and time.monotonic() < until:
    watchdog.turn()
    time.sleep(0.05)
while time.monotonic() < until:
    watchdog.turn()
    pid, status = os.waitpid(stopped, os.WNOHANG)
    if pid:
        break
    time.sleep(0.05)
print("stopped", os.waitstatus_to_exitcode(status))
for _ in range(10):
    watchdog.turn()
    time.sleep(0.05)
print("dead", status_of(dead))
for name, pid in (("lively", lively), ("silent", silent)):
    assert os.waitpid(pid, os.WNOHANG)[0] == 0, name
    os.kill(pid, signal.SIGTERM)
    print(name, status_of(pid))
"""


def test_a_stopped_child_is_ended_and_the_others_are_left_alone():
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PARENT],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == ["stopped -9", "dead 3", "lively -15", "silent -15"]
