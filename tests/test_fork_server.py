"""What the fork server starts is a process like any other."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fork_server import Forked, ForkServer

pytestmark = pytest.mark.parity

RUN = ("cProfile", "-o", "/dev/null")
"""A module that runs a file."""
LOOK = "import os; print(os.getpid(), os.getpgrp(), os.environ.get('MINE'), 'HOME' in os.environ, os.getcwd())"


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    """A server whose parent has imported little."""
    started = ForkServer(["json"])
    yield started
    started.close()


@pytest.fixture
def start(server: ForkServer, tmp_path: Path) -> Callable[..., Forked]:
    """Starts a program in these variables; what it prints is in the file ``said``."""

    def started(source: str, **variables: str) -> Forked:
        program = tmp_path / f"{len(list(tmp_path.iterdir()))}.py"
        program.write_text(source)
        with (tmp_path / "said").open("wb") as out:
            return server.start(*RUN, str(program), environment=variables, output=out, own_session=True)

    return started


def test_it_has_its_own_pid_session_and_environment(start: Callable[..., Forked], tmp_path: Path) -> None:
    process = start(LOOK, MINE="1")

    assert process.wait(10) == 0
    pid, group, mine, has_home, folder = (tmp_path / "said").read_text().split()
    assert (int(pid), int(group)) == (process.pid, process.pid)
    assert (mine, has_home) == ("1", "False"), "nothing of the parent's environment"
    assert (Path(folder) / "callboard").exists()


def test_how_it_ends_is_reported(start: Callable[..., Forked]) -> None:
    failing = start("import os; os._exit(3)")
    waiting = start("import time; time.sleep(60)")

    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(0.05)
    assert waiting.poll() is None
    waiting.kill()

    assert (failing.wait(10), waiting.wait(10)) == (3, -9)
    waiting.terminate()  # does nothing: it has ended


def test_what_it_started_ends_with_it(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import time; time.sleep(60)")
    server = ForkServer(["json"])
    with (tmp_path / "said").open("wb") as out:
        process = server.start(*RUN, str(tmp_path / "program.py"), environment={}, output=out, own_session=True)

    server.close()

    assert process.wait(10) != 0


def test_what_only_an_executed_process_reads_is_not_forked(server: ForkServer) -> None:
    assert server.suits({**server.environment, "CALLBOARD_SLOTS": "3"})
    assert not server.suits({**server.environment, "LD_PRELOAD": "/library.so"})
    assert not server.suits({**server.environment, "PYTHONPATH": "/elsewhere"})
