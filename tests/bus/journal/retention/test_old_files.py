"""Old files of the logger observer go; what a living process writes to stays."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bus.journal.retention.retention import remove_old_logs


def write(folder: Path, name: str, at_s: float) -> None:
    (folder / name).write_text("a line\n")
    os.utime(folder / name, (at_s, at_s))


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


@contextmanager
def held(lock: Path) -> Iterator[None]:
    """Hold a slot as a living process does."""
    fd = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    yield
    os.close(fd)


def test_files_not_written_since_go(tmp_path: Path) -> None:
    for name, at_s in (("runs-0.log", 200), ("runs-0.log.1", 99), ("runs-0.log.2", 50), ("runs-1.log", 99)):
        write(tmp_path, name, at_s)

    removed = remove_old_logs(tmp_path, 100)

    assert removed == 3
    assert left(tmp_path) == ["runs-0.log"]


def test_files_that_are_not_the_loggers_stay(tmp_path: Path) -> None:
    for name in ("up.log", "worker-1.log", "notes.txt"):
        write(tmp_path, name, 1)

    assert remove_old_logs(tmp_path, 100) == 0
    assert left(tmp_path) == ["notes.txt", "up.log", "worker-1.log"]


def test_the_file_of_a_living_process_stays(tmp_path: Path) -> None:
    write(tmp_path, "runs-0.log", 1)
    write(tmp_path, "runs-0.log.1", 1)

    with held(tmp_path / "runs-0.lock"):
        assert remove_old_logs(tmp_path, 100) == 1
        assert left(tmp_path) == ["runs-0.log"]
    assert remove_old_logs(tmp_path, 100) == 1
    assert left(tmp_path) == []


def test_a_folder_that_is_not_there_has_none(tmp_path: Path) -> None:
    assert remove_old_logs(tmp_path / "logs", 100) == 0


def test_one_that_cannot_be_deleted_hides_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "runs-0.log.1").mkdir()
    os.utime(tmp_path / "runs-0.log.1", (1, 1))
    write(tmp_path, "runs-1.log.1", 1)

    assert remove_old_logs(tmp_path, 100) == 1
    assert "could not be deleted" in caplog.text
