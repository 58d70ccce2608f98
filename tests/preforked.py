"""Runs pytest over processes that are forks of one which has imported the tests.

    python -P -m tests.preforked -n 3 ...     # further arguments are pytest's

pytest-xdist starts an interpreter for each of its processes, and each of them would import all tests: 2 s of CPU, or 5
in a fresh clone, where nothing is compiled. A fork has them in memory, and collects them in a second.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import execnet.gateway_io
import pytest
from execnet.gateway_base import Popen2IO

COLLECTED = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
OPEN_FILES = 1024
"""A child closes the file descriptors below this one, as an executed process does not have them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Child:
    """A forked process that waits for execnet's first line."""

    pid: int
    to_it: int
    from_it: int
    """File descriptors of pipes."""


class ForkedIO(Popen2IO):
    """What execnet needs of a process that it did not start."""

    def __init__(self, child: Child, execmodel: Any) -> None:
        super().__init__(os.fdopen(child.to_it, "wb"), os.fdopen(child.from_it, "rb"), execmodel)
        self._pid = child.pid

    def wait(self) -> int:
        """Return its exit status once it has ended."""
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    def kill(self) -> None:
        """End it."""
        os.kill(self._pid, signal.SIGKILL)


def imports_all(arguments: Sequence[str]) -> bool:
    """Import the tests that pytest would run; return whether this process can be forked now.

    Nothing is captured meanwhile: what is imported may keep ``sys.stderr``, and pytest closes its own afterwards.
    """
    with redirect_stdout(io.StringIO()):
        status = pytest.main([*arguments, "-n", "0", "--collect-only", "--capture=no"])
    from tests.template import sqlite_template  # not before pytest has cleared the environment of the developer's

    sqlite_template()  # for all of them
    gc.collect()
    gc.freeze()  # else the collector of a child would write to each object, and the kernel copy its page
    return status in COLLECTED and threading.active_count() == 1


def fork() -> Child | None:
    """Return a child; in the child, None."""
    (reads, to_it), (from_it, writes) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid:
        os.close(reads)
        os.close(writes)
        return Child(pid=pid, to_it=to_it, from_it=from_it)
    os.dup2(reads, 0)
    os.dup2(writes, 1)
    os.closerange(3, OPEN_FILES)  # of siblings too, which would not see their end otherwise
    return None


def be_a_worker() -> None:
    """Execute what execnet sends, as the interpreter that it starts does."""
    atexit.register(os._exit, 0)
    sys.argv = ["-c"]
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    line = sys.stdin.readline()
    if line:
        exec(eval(line), {"__name__": "__main__"})


def hand_out(children: list[Child]) -> None:
    """Have execnet use the children; where they do not suffice, as after a crash, it starts a process."""
    start = execnet.gateway_io.create_io

    def create_io(spec: Any, execmodel: Any) -> Any:
        return ForkedIO(children.pop(0), execmodel) if children else start(spec, execmodel)

    execnet.gateway_io.create_io = create_io


def asked_for(arguments: Sequence[str]) -> int:
    """Return over how many processes the tests shall be spread; the last option counts."""
    counts = [value for option, value in pairwise(arguments) if option == "-n"]
    return int(counts[-1]) if counts and counts[-1].isdecimal() else 0


def main(arguments: Sequence[str]) -> int:
    """Run pytest, and in each child be one of its processes."""
    count = asked_for(arguments)
    if sys.platform != "linux" or not count or not imports_all(arguments):  # pytest says what is wrong
        os.execv(sys.executable, (sys.executable, "-P", "-m", "pytest", *arguments))
    children: list[Child] = []
    for _ in range(count):
        child = fork()
        if child is None:
            be_a_worker()
            return 0
        children.append(child)
    hand_out(children)
    return pytest.main([*arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
