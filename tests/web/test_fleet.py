"""How many workers are still to come, as an `up` on the state folder says."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cli.supervisor.pid_lock import PidLock
from web.fleet import START_UP_S, without_worker, workers_starting


@pytest.fixture
def lock(tmp_path: Path) -> PidLock:
    lock = PidLock(tmp_path / "up.lock")
    assert lock.take() is None
    lock.announce("http://127.0.0.1:8000", workers=2)
    return lock


@pytest.mark.parametrize(("alive", "starting"), [(0, 2), (1, 1), (2, 0), (3, 0)])
def test_workers_without_a_heartbeat_yet_are_starting(tmp_path: Path, lock: PidLock, alive: int, starting: int) -> None:
    assert workers_starting(tmp_path, alive) == starting
    lock.release()


def test_after_a_while_a_worker_that_did_not_come_is_not_starting(tmp_path: Path, lock: PidLock) -> None:
    path = tmp_path / "up.lock"
    long_ago = path.stat().st_mtime - START_UP_S - 1
    os.utime(path, (long_ago, long_ago))

    assert without_worker(tmp_path) == "no worker is alive"
    lock.release()


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"pid": 1}', json.dumps({"pid": 2**22 + 1, "address": "", "workers": 2}), '{"pid": "x"}'],
)
def test_without_an_up_no_worker_is_starting(tmp_path: Path, content: str) -> None:
    assert workers_starting(tmp_path) == 0
    (tmp_path / "up.lock").write_text(content)

    assert workers_starting(tmp_path) == 0


def test_the_words_have_both_numbers(tmp_path: Path, lock: PidLock) -> None:
    assert without_worker(tmp_path) == "workers are starting (0 of 2)"
    lock.release()
