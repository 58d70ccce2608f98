"""The disk of the state folder is full, out of inodes or read-only: calls that need no folder of it are made.

The database is elsewhere, as Postgres is; what becomes of a run whose database is full is tested in tests/web.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agents.errors import STORAGE_FULL
from agents.testing import AgentKit, Call, Turn
from agents.tools import current_call, tool
from agents.tools.files import list_files, read_file, write_file
from agents.tools.isolation.call_folder import CallFolder
from bus.payloads import ToolPayload, ToolResultPayload
from tests.conftest import need
from tests.raising import raises

pytestmark = pytest.mark.parity

BYTES, INODES = 64 * 1024, 40


@tool(effect="unsafe")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="unsafe")
def keep(text: str) -> str:
    """Keep a text in the sandbox."""
    (current_call().sandbox / "kept.txt").write_text(text)
    return "kept"


def take_inodes(disk: Path) -> None:
    with suppress(OSError):
        for number in range(2 * INODES):
            (disk / f"taken-{number}").touch()


def take_space(disk: Path) -> None:
    with suppress(OSError):
        (disk / "taken").write_bytes(bytes(2 * BYTES))


def make_read_only(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)


def forbid_writing(disk: Path) -> None:
    disk.chmod(0o500)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own, for root; otherwise a folder, whose rights are the only limit."""
    path = tmp_path / "disk"
    path.mkdir()
    if os.geteuid() != 0:
        yield path
        path.chmod(0o700)
        return
    options = ["-t", "tmpfs", "-o", f"size={BYTES},nr_inodes={INODES},mode=700", "none", str(path)]
    may = subprocess.run(["mount", *options], check=False, capture_output=True).returncode == 0
    need("mount" if may else None, "the right to mount a file system")
    yield path
    subprocess.run(["umount", "--lazy", str(path)], check=True)


FAULTS: list[tuple[Callable[[Path], None], str]] = [
    (take_inodes, "its disk has no space, or no inodes, left"),
    (take_space, "its disk has no space, or no inodes, left"),
    (make_read_only, "its disk is read-only"),
]
if os.geteuid() != 0:
    FAULTS = [(forbid_writing, "permission denied")]


def outcomes(kit: AgentKit, *calls: Call) -> tuple[str, list[tuple[str, str | None, Any]]]:
    """Make the calls at once; return how the run and each call ended, in the order of the calls."""
    kit.model.script(Turn(calls=calls), Turn(text="done"))
    played = kit.play()
    ended = {result.call_id: (result.outcome, result.code, result.result) for result in played.of(ToolResultPayload)}
    return played.end.status, [ended[call.call_id] for call in played.of(ToolPayload)]


@pytest.mark.parametrize(("spoil", "reason"), FAULTS)
def test_a_call_that_gets_no_folder_has_failed_and_others_are_made(
    disk: Path, spoil: Callable[[Path], None], reason: str
) -> None:
    with AgentKit(tools=[add, keep, read_file, write_file, list_files], settings={"state_dir": disk / "state"}) as kit:
        spoil(disk)

        status, results = outcomes(
            kit,
            Call(name="add", arguments={"a": 1, "b": 2}),
            Call(name="keep", arguments={"text": "x"}),
            Call(name="write_file", arguments={"path": "a/b.txt", "text": "x"}),
            Call(name="list_files", arguments={}),
            Call(name="read_file", arguments={"path": "a.txt"}),
        )

    assert status == "succeeded"
    assert results[0] == ("done", None, 3)
    assert results[1][0] == "failed"
    assert results[2][:2] == ("failed", "storage_full")
    assert reason in results[2][2]
    assert results[3][0] == "done"
    assert results[4][:2] == ("failed", "path_refused")


@pytest.mark.parametrize(("spoil", "reason"), FAULTS)
def test_a_file_that_a_disk_does_not_take_is_not_written(
    disk: Path, spoil: Callable[[Path], None], reason: str
) -> None:
    with AgentKit(tools=[write_file, read_file], settings={"state_dir": disk / "state"}) as kit:
        read = Call(name="read_file", arguments={"path": "a.txt"})
        outcomes(kit, Call(name="write_file", arguments={"path": "a.txt", "text": "first"}))
        if spoil is forbid_writing:
            (folder := disk / "state/sandbox/default/tester").chmod(0o500)
        spoil(disk)

        _, written = outcomes(kit, Call(name="write_file", arguments={"path": "a.txt", "text": "x" * 5000}))
        _, unchanged = outcomes(kit, read)
        if spoil is forbid_writing:
            folder.chmod(0o700)

    (outcome, code, text) = written[0]
    assert (outcome, unchanged[0][2]) == ("failed", "first")
    assert (code, reason in text) == ("storage_full", True) or spoil is forbid_writing


@pytest.mark.parametrize(("spoil", "reason"), [fault for fault in FAULTS if fault[0] is not take_space])
def test_a_program_whose_folder_cannot_be_made_does_not_begin(
    disk: Path, spoil: Callable[[Path], None], reason: str
) -> None:
    (disk / "calls").mkdir()
    spoil(disk)

    with raises(STORAGE_FULL, match=reason), CallFolder(disk / "calls" / "more", wall_s=1):
        pytest.fail("it has begun")

    assert list((disk / "calls").iterdir()) == []


def test_the_folder_is_made_for_the_call_that_asks_for_it(kit: AgentKit) -> None:
    kit.agent(tools=[add, keep])
    sandbox = kit.settings.state / "sandbox"

    outcomes(kit, Call(name="add", arguments={"a": 1, "b": 2}))
    assert not sandbox.exists()
    outcomes(kit, Call(name="keep", arguments={"text": "x"}))

    assert (sandbox / "default" / "tester" / "kept.txt").read_text() == "x"
    shutil.rmtree(sandbox)
    outcomes(kit, Call(name="keep", arguments={"text": "y"}))
    assert (sandbox / "default" / "tester" / "kept.txt").read_text() == "y"
