"""A fork waits for what is in use, and a child inherits nothing of it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from config.forks import ForkGate
from tests.processes import run_python


def test_nothing_is_in_use_when_it_is_closed_before_a_fork() -> None:
    seen: list[int] = []
    in_use: set[int] = set()
    gate = ForkGate(lambda: seen.append(len(in_use)))
    over = threading.Event()

    def use(number: int) -> None:
        while not over.is_set():
            with gate:
                in_use.add(number)
                in_use.remove(number)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        gate.before()
        gate.after()
    over.set()
    for thread in threads:
        thread.join(10)

    assert seen == [0] * 50
    assert not any(thread.is_alive() for thread in threads)


def test_two_forks_at_once_hold_new_uses_up_until_both_are_over() -> None:
    gate, used = ForkGate(lambda: None), threading.Event()

    def use() -> None:
        with gate:
            used.set()

    gate.before()
    gate.before()
    user = threading.Thread(target=use)
    user.start()
    gate.after()
    still_held = not used.wait(0.05)
    gate.after()

    assert still_held
    assert used.wait(10)
    user.join(10)


def test_who_is_inside_may_enter_again_while_a_fork_waits(monkeypatch) -> None:
    monkeypatch.setattr("config.forks.PATIENCE_S", 0.01)
    gate = ForkGate(lambda: None)

    with gate:
        gate.before()  # it gives up: this thread will not leave before
        with gate:
            pass
        gate.after()


@pytest.mark.parity
def test_sqlites_files_are_not_open_in_a_child_and_nothing_is_lost(tmp_path: Path) -> None:
    code = """
import os, sys, threading
from sqlalchemy import text
from config.database.engine import open_database
database = open_database("sqlite:///" + sys.argv[1])
with database.write() as connection:
    connection.execute(text("CREATE TABLE notes (pid INTEGER, number INTEGER)"))
def note(count):
    for number in range(count):
        with database.write() as connection:
            connection.execute(text("INSERT INTO notes VALUES (:pid, :number)"), {"pid": os.getpid(), "number": number})
threads = [threading.Thread(target=note, args=(60,)) for _ in range(2)]
[thread.start() for thread in threads]
children = []
for _ in range(6):
    pid = os.fork()
    if pid == 0:
        names = [os.path.realpath(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")]
        is_open = any(name.endswith(("notes.db", "-wal", "-shm")) for name in names)
        try:
            note(10)
        finally:
            os._exit(3 if is_open or sys.exc_info()[0] else 0)
    children.append(pid)
[thread.join() for thread in threads]
database.close()  # a child that believed it held the parent's locks would lose its file now
statuses = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
with database.read() as connection:
    rows = connection.execute(text("SELECT count(*) FROM notes")).scalar()
    print(statuses, rows, connection.execute(text("PRAGMA integrity_check")).scalar())
"""
    ran = run_python("-W", "ignore::DeprecationWarning", "-c", code, str(tmp_path / "notes.db"), timeout_s=55)

    assert ran.stdout.strip() == f"{[0] * 6} {2 * 60 + 6 * 10} ok", ran.stderr
