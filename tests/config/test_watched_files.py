"""Files are read again when they have changed, and only then."""

import os
from pathlib import Path

import pytest

from config.watched_files import WatchedFiles, stamp_of


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rules.yaml"
    path.write_text("a: 1\n")
    return path


def read(watched: WatchedFiles) -> None:
    watched.mark_read(watched.changed())


def test_files_have_changed_until_they_are_marked_as_read(file: Path) -> None:
    watched = WatchedFiles(lambda: [file])

    assert watched.changed() is not None
    assert watched.changed() is not None
    read(watched)
    assert watched.changed() is None


def replace_with_the_same_time_and_size(file: Path) -> None:
    facts, other = file.stat(), file.with_name("other")
    other.write_text("b: 2\n")
    os.utime(other, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    other.replace(file)


@pytest.mark.parametrize(
    "change", [lambda file: file.write_text("b: 22\n"), Path.unlink, replace_with_the_same_time_and_size]
)
def test_an_edit_is_noticed(file: Path, change) -> None:
    watched = WatchedFiles(lambda: [file])
    read(watched)

    change(file)

    assert watched.changed() is not None


def test_a_file_that_comes_is_noticed(tmp_path: Path) -> None:
    watched = WatchedFiles(lambda: sorted(tmp_path.glob("*.yaml")))
    read(watched)

    (tmp_path / "more.yaml").touch()

    assert watched.changed() is not None


def test_an_edit_during_the_reading_is_noticed_afterwards(file: Path) -> None:
    watched = WatchedFiles(lambda: [file])
    before = watched.changed()
    file.write_text("b: 22\n")

    watched.mark_read(before)

    assert watched.changed() is not None


def test_files_that_could_not_be_read_just_now_have_changed(file: Path) -> None:
    watched = WatchedFiles(lambda: [file])
    read(watched)

    watched.mark_read(None)

    assert watched.changed() == (stamp_of(file),)
