"""After an `up` and a run nothing in the state folder is open to other users, whatever was so before."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.journeys.up import WarmingUp

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]


def test_nothing_in_the_state_folder_is_open_to_others(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o777)
    state.chmod(0o777)
    before = os.umask(0)
    try:
        with WarmingUp(state, "--port", "0", "--workers", "1") as up:
            up.ask("assistant", "Write 'hello' to note.txt.")
            wide = [
                f"{path} {stat.filemode(path.lstat().st_mode)}" for path in (state, *state.rglob("*")) if is_wide(path)
            ]
            up.stop()
    finally:
        os.umask(before)

    assert wide == []


def test_a_folder_that_is_open_and_not_ours_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "home"
    state.mkdir()
    (state / "letters.txt").touch()
    state.chmod(0o755)

    with WarmingUp(state, "--port", "0") as up:
        line = up.wait_for("state_dir_exposed")

    assert "chmod 700" in line


def is_wide(path: Path) -> bool:
    return bool(stat.S_IMODE(path.lstat().st_mode) & 0o077)
