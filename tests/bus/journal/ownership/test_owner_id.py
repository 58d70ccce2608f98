"""An owner's id tells a neighbour whether its process has ended; where that is unknown, it has not."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bus.journal.ownership import workers as owner_ids
from bus.journal.ownership.workers import is_gone, new_owner_id

FORM = re.compile(r"(own_[0-9a-f]{12})_(\d+)_(\d+)_(\w+)")
SAID = "from bus.journal.ownership.workers import new_owner_id; print(new_owner_id(), flush=True); input()"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows when a process began")


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    """A process that says its owner id and waits."""
    with subprocess.Popen([sys.executable, "-c", SAID], stdin=-1, stdout=-1, text=True) as started:
        yield started
        started.kill()


def said_by(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def mine() -> tuple[str, str, str, str]:
    """Return the parts of an id of this process."""
    match = FORM.fullmatch(new_owner_id())
    assert match is not None
    return match[1], match[2], match[3], match[4]


def test_an_id_names_this_process_and_is_new_each_time() -> None:
    first, second = new_owner_id(), new_owner_id()

    assert first != second
    assert mine()[1] == str(os.getpid())
    assert len(first) <= 64  # as much as the column holds
    assert not is_gone(first)


@pytest.mark.parity
def test_a_process_that_lives_is_not_gone(process: subprocess.Popen[str]) -> None:
    assert not is_gone(said_by(process))


@pytest.mark.parity
def test_a_process_that_ended_is_gone(process: subprocess.Popen[str]) -> None:
    owner = said_by(process)
    process.kill()
    process.wait(20)

    assert is_gone(owner)


@pytest.mark.parity
def test_a_process_that_ended_and_waits_to_be_buried_is_gone(process: subprocess.Popen[str]) -> None:
    owner = said_by(process)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it is dead, and stays a zombie

    assert os.path.exists(f"/proc/{process.pid}")
    assert is_gone(owner)


def test_a_pid_that_was_given_again_is_another_process() -> None:
    machine, pid, started, rest = mine()

    assert is_gone(f"{machine}_{pid}_{int(started) - 1}_{rest}")


@pytest.mark.parity
def test_a_name_with_brackets_and_blanks_does_not_hide_when_a_process_began() -> None:
    text = f"import ctypes; ctypes.CDLL(None).prctl(15, b'a) S (b c', 0, 0, 0); {SAID}"
    with subprocess.Popen([sys.executable, "-c", text], stdin=-1, stdout=-1, text=True) as named:
        owner = said_by(named)
        try:
            assert "a) S (b c" in Path(f"/proc/{named.pid}/stat").read_text()
            assert FORM.fullmatch(owner)
            assert not is_gone(owner)
        finally:
            named.kill()
    assert is_gone(owner)


# What /proc says of a process that may not be looked at: with hidepid=2, with hidepid=1, with no file left to open.
UNREADABLE = [errno.ENOENT, errno.EACCES, errno.EMFILE]


def hide(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let /proc show no process."""

    def refuse(path: str, **_options: object) -> None:
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(owner_ids, "open", refuse, raising=False)


@pytest.mark.parity
@pytest.mark.parametrize("number", UNREADABLE)
def test_a_process_that_may_not_be_looked_at_is_gone_only_when_there_is_none(
    monkeypatch: pytest.MonkeyPatch, process: subprocess.Popen[str], number: int
) -> None:
    owner = said_by(process)
    hide(monkeypatch, number)

    assert not is_gone(owner)
    process.kill()
    process.wait(20)
    assert is_gone(owner)


@pytest.mark.parity
def test_another_users_process_that_may_not_be_looked_at_is_not_known_to_be_gone(
    monkeypatch: pytest.MonkeyPatch, process: subprocess.Popen[str]
) -> None:
    def refuse(pid: int, _signal: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(pid))

    owner = said_by(process)
    hide(monkeypatch, errno.ENOENT)
    with monkeypatch.context() as patch:
        patch.setattr(os, "kill", refuse)

        assert not is_gone(owner)


@pytest.mark.parity
def test_a_dead_process_that_may_not_be_looked_at_is_gone_once_it_is_buried(
    monkeypatch: pytest.MonkeyPatch, process: subprocess.Popen[str]
) -> None:
    owner = said_by(process)
    hide(monkeypatch, errno.ENOENT)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it is dead, and stays a zombie

    assert not is_gone(owner), "it cannot be distinguished from one that lives: the lease decides"
    process.wait(20)
    assert is_gone(owner)


def test_a_process_of_another_machine_cannot_be_judged() -> None:
    _, _, _, rest = mine()

    assert not is_gone(f"own_0123456789ab_{2**22 + 1}_1_{rest}")


def test_a_container_with_its_own_pids_is_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    here = mine()[0]
    monkeypatch.setattr(os, "readlink", lambda _: "pid:[4026532999]")

    owner_ids.machine_id.cache_clear()
    there = mine()[0]
    owner_ids.machine_id.cache_clear()

    assert there != here


@pytest.mark.parametrize(
    "garbage",
    [
        *(None, "", "own_1", "own_lost", "own_x_1_2_y"),
        *("own_0123456789ab_-1_2_y", "own_0123456789ab_1_2_", "own_0123456789ab_1_2_y\n", "own_０１２３_1_2_y"),
        *("own_" + "9" * 99, "x" * 10_000),
    ],
)
def test_a_malformed_id_cannot_be_judged(garbage: str | None) -> None:
    assert not is_gone(garbage)


def test_a_pid_there_never_was_is_gone() -> None:
    machine, _, started, rest = mine()

    assert is_gone(f"{machine}_{2**40}_{started}_{rest}")
    assert is_gone(f"{machine}_{'9' * 30}_{started}_{rest}")


def test_elsewhere_than_on_linux_the_lease_alone_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, pid, started, rest = mine()
    monkeypatch.setattr(sys, "platform", "darwin")

    assert not is_gone(f"{machine}_{pid}_{int(started) - 1}_{rest}")


def test_where_no_process_shows_when_it_began_ids_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, errno.ENOENT)

    owner = new_owner_id()

    assert owner.startswith("own_")
    assert FORM.fullmatch(owner) is None
    assert not is_gone(owner)
