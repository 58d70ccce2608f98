"""Children are forked in a process of their own: the tests' has threads."""

import sys
from pathlib import Path

import pytest

from tests.processes import run_python

pytestmark = pytest.mark.parity

SCRIPT = """
import os, signal, sys, threading
from pathlib import Path
from cli.crashlab.fork_runner import ForkRunner, other_threads
fork_runner = ForkRunner(Path(sys.argv[1]) / "child.log")
{body}
"""


def lab(folder: Path, body: str) -> list[str]:
    """Return the lines a parent prints."""
    ran = run_python("-c", SCRIPT.format(body=body), str(folder))
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def test_a_child_hands_back_what_it_found(tmp_path):
    show = "print(outcome.end, outcome.result['pid'] != os.getpid())"
    output = lab(tmp_path, f"outcome = fork_runner.run(lambda: {{'pid': os.getpid()}}, 20)\n{show}")

    assert output == ["returned True"]


def test_much_is_handed_back_whole(tmp_path):
    assert lab(tmp_path, "print(len(fork_runner.run(lambda: 'x' * 1_000_000, 20).result))") == ["1000000"]


def test_a_kill_is_distinguished_from_an_error(tmp_path):
    body = """
print(fork_runner.run(lambda: os.kill(os.getpid(), signal.SIGKILL), 20).end)
outcome = fork_runner.run(lambda: 1 / 0, 20)
print(outcome.end, "ZeroDivisionError" in outcome.output)
"""
    assert lab(tmp_path, body) == ["killed", "raised True"]


def test_one_that_hangs_says_where(tmp_path):
    body = """
def wait_for_ever():
    threading.Event().wait()
outcome = fork_runner.run(wait_for_ever, 0.3)
print(outcome.end, "wait_for_ever" in outcome.output)
"""
    assert lab(tmp_path, body) == ["hung True"]


def test_what_a_child_prints_is_kept_apart(tmp_path):
    output = lab(tmp_path, "outcome = fork_runner.run(lambda: print('a secret'), 20)\nprint(outcome.output.strip())")

    assert output == ["a secret"]


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel to be killed with its parent")
def test_a_child_does_not_outlive_its_parent(tmp_path):
    body = """
import time
def wait():
    (Path(sys.argv[1]) / "pid").write_text(str(os.getpid()))
    threading.Event().wait()
middle = os.fork()
if middle == 0:
    fork_runner.run(wait, 60)
while not (Path(sys.argv[1]) / "pid").exists() or not (Path(sys.argv[1]) / "pid").read_text():
    time.sleep(0.01)
pid = int((Path(sys.argv[1]) / "pid").read_text())
watched = os.pidfd_open(pid)
os.kill(middle, signal.SIGKILL)
os.waitpid(middle, 0)
import select
print(bool(select.select([watched], [], [], 20)[0]))
"""
    assert lab(tmp_path, body) == ["True"]


def test_threads_are_seen(tmp_path):
    body = """
print(other_threads())
threading.Thread(target=threading.Event().wait, name="busy", daemon=True).start()
print(other_threads())
"""
    assert lab(tmp_path, body) == ["[]", "['busy']"]


def test_a_child_that_ends_its_process_with_status_0_hands_nothing_back(tmp_path):
    body = """
outcome = fork_runner.run(lambda: os._exit(0), 20)
print(outcome.end, outcome.status, outcome.result)
"""
    assert lab(tmp_path, body) == ["raised 0 None"]
