"""Turns of processes at one SQLite file: none is starved, and a process that was stopped or ended blocks no other."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from config.database.engine import Database, open_database
from config.database.tables import metadata
from config.database.turn import GATE, TURN, FileTurn
from config.folders import ROOT

GREEDY = """
import sys, time
from config.database.engine import open_database
database = open_database(sys.argv[1])
print("ready", flush=True)
while True:
    with database.write() as connection:
        connection.exec_driver_sql("UPDATE runs SET title = 'x'")
        time.sleep(0.03)
"""
HOLDS_A_BYTE = """
import sys, time
from config.database.turn import FileTurn
turn = FileTurn(sys.argv[1])
assert turn._is_open() and turn._lock(int(sys.argv[2]), 0)
print("ready", flush=True)
time.sleep(60)
"""


@contextmanager
def other(code: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Yield another process, once it said that it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "callboard.db"


@pytest.fixture
def opened(file: Path) -> Iterator[Database]:
    database = open_database(f"sqlite:///{file}")
    metadata.create_all(database.engine)
    yield database
    database.close()


@pytest.mark.parity
def test_a_process_that_writes_without_a_pause_starves_no_other(opened: Database, file: Path) -> None:
    """It holds the database for 30 ms and takes it again at once; every other turn is ours."""
    with other(GREEDY, f"sqlite:///{file}") as greedy:
        waits_s = []
        for _ in range(20):
            began_s = time.monotonic()
            with opened.write():
                waits_s.append(time.monotonic() - began_s)
            time.sleep(0.005)  # the other has it again by then
        assert greedy.poll() is None, "it writes all the time"

    assert sorted(waits_s)[len(waits_s) // 2] < 0.3, "about one turn of the other's; SQLite's own queue: seconds"


@pytest.mark.parity
@pytest.mark.parametrize("byte", [GATE, TURN])
def test_a_process_that_was_stopped_in_the_queue_blocks_no_other(opened: Database, file: Path, byte: int) -> None:
    """As one that was stopped right after its commit, before it let the turn go."""
    with other(HOLDS_A_BYTE, str(file), str(byte)) as process:
        process.send_signal(signal.SIGSTOP)
        began_s = time.monotonic()
        for _ in range(50):
            with opened.write():
                pass

    assert time.monotonic() - began_s < 4, "neither is waited for at each write, nor as long as for SQLite"


@pytest.mark.parity
@pytest.mark.parametrize("byte", [GATE, TURN])
def test_a_process_that_was_killed_leaves_nothing_locked(opened: Database, file: Path, byte: int) -> None:
    with other(HOLDS_A_BYTE, str(file), str(byte)) as process:
        process.kill()
        process.wait(10)
    mine = FileTurn(str(file))

    assert mine._is_open()
    assert mine._lock(byte, time.monotonic())


def test_the_file_is_its_owners_alone_and_no_link_is_followed(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "victim"
    (tmp_path / "linked.db-turn").symlink_to(target)

    with FileTurn(str(file)).taken(1), FileTurn(str(tmp_path / "linked.db")).taken(1):
        pass

    assert stat.S_IMODE((tmp_path / "callboard.db-turn").stat().st_mode) == 0o600
    assert not target.exists()


@pytest.mark.parametrize("path", [None, "/nowhere/at/all.db"])
def test_without_a_file_no_writer_waits(path: str | None) -> None:
    with FileTurn(path).taken(0):
        pass
