"""Signs of life are written while their reader exists, and a process whose loop is stuck ends."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bus.liveness import LIVENESS_PIPE, SHORTEST_S, WEDGED_STATUS, LivenessPipe, LoopWatch, wedged_after_s
from bus.loop import ProcessLoop

ROOT = Path(__file__).parents[2]
STUCK = """
import logging, sys, time
from bus.loop import ProcessLoop
from bus.liveness import LoopWatch
logging.basicConfig(stream=sys.stderr)

async def block_the_loop():
    {first}
    time.sleep(600)

loop = ProcessLoop()
loop.submit(block_the_loop())
watch = LoopWatch(loop, 3.0)
while not watch.is_stuck():
    time.sleep(0.1)
watch.end_process()
"""


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch):
    reading, writing = os.pipe()
    monkeypatch.setenv(LIVENESS_PIPE, f"{writing}:{os.fstat(writing).st_ino}")
    yield reading, writing
    for descriptor in (reading, writing):
        with contextlib.suppress(OSError):
            os.close(descriptor)


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=50, check=False
    )


def test_a_loop_that_turns_is_left_alone(loop: ProcessLoop):
    watch = LoopWatch(loop, 1.0)

    for _ in range(5):
        assert not watch.is_stuck()
        turned = threading.Event()
        loop.call_soon(turned.set)
        assert turned.wait(10)


def test_turns_are_counted_so_a_process_that_was_stopped_is_not_blamed():
    loop, release, blocked = ProcessLoop(), threading.Event(), threading.Event()

    def block() -> None:
        blocked.set()
        release.wait(30)

    loop.call_soon(block)
    assert blocked.wait(10)
    watch = LoopWatch(loop, 3.0)

    verdicts = [watch.is_stuck() for _ in range(4)]

    release.set()
    assert verdicts == [False, False, False, True], "the question, and three turns without an answer"


@pytest.mark.parity
def test_a_process_whose_loop_is_stuck_says_in_what_and_ends_with_status_75():
    ended = run(STUCK.format(first="pass"))

    assert ended.returncode == WEDGED_STATUS == 75
    assert "CRITICAL" in ended.stderr
    assert "in block_the_loop" in ended.stderr
    assert "task='Task-" in ended.stderr


@pytest.mark.parity
def test_it_ends_also_when_the_stuck_thread_holds_the_logs_lock():
    ended = run(STUCK.format(first="logging.getLogger().handlers[0].acquire()"))

    assert ended.returncode == WEDGED_STATUS


def test_short_leases_do_not_make_a_slow_loop_a_stuck_one():
    assert wedged_after_s(0.5) == SHORTEST_S
    assert wedged_after_s(15) == 15


@pytest.mark.parity
def test_a_beat_is_a_byte_and_a_full_pipe_is_enough(pipe: tuple[int, int]):
    heart = LivenessPipe.inherited()
    assert heart is not None

    for _ in range(70_000):  # a pipe holds 64 KiB
        heart.beat()

    assert set(os.read(pipe[0], 1 << 20)) == set(b".")


def test_a_listener_who_is_gone_is_no_reason_to_end(pipe: tuple[int, int]):
    heart = LivenessPipe.inherited()
    assert heart is not None
    os.close(pipe[0])

    heart.beat()


def test_nothing_is_written_into_a_file_that_took_the_pipes_number(pipe: tuple[int, int], tmp_path: Path):
    heart = LivenessPipe.inherited()
    assert heart is not None
    foreign = os.open(tmp_path / "ledger", os.O_CREAT | os.O_WRONLY)
    os.dup2(foreign, pipe[1])
    os.close(foreign)

    heart.beat()
    heart.close()

    os.fstat(pipe[1])  # it is still open: what is not ours was left open
    assert (tmp_path / "ledger").read_bytes() == b""


@pytest.mark.parametrize("named", ["", "x:y", "7", "999999:1", "0:1"])
def test_a_process_without_a_supervisor_sends_no_bytes(monkeypatch: pytest.MonkeyPatch, named: str):
    monkeypatch.setenv(LIVENESS_PIPE, named)

    assert LivenessPipe.inherited() is None


def test_programs_we_start_do_not_learn_of_the_pipe(pipe: tuple[int, int]):
    os.set_inheritable(pipe[1], True)

    assert LivenessPipe.inherited() is not None

    assert LIVENESS_PIPE not in os.environ
    assert not os.get_inheritable(pipe[1])
    assert LivenessPipe.inherited() is None, "one process, one heart"


@pytest.mark.parity
def test_a_fork_does_not_speak_for_its_parent():
    forked = run("""
import os
from bus.liveness import LIVENESS_PIPE, LivenessPipe
reading, writing = os.pipe()
os.environ[LIVENESS_PIPE] = f"{writing}:{os.fstat(writing).st_ino}"
heart = LivenessPipe.inherited()
child = os.fork()
if child == 0:
    heart.beat()
    os._exit(0)
os.waitpid(child, 0)
heart.close()
assert os.read(reading, 9) == b""
""")

    assert forked.returncode == 0, forked.stderr
