"""A sandbox is made when a call asks for it, and labels follow what calls write and read there."""

import os
import resource

import pytest

from agents.errors import STORAGE_FULL
from agents.tools.isolation.call_folder import CallSandbox, labels_of
from config.errors import ToolFailed
from tests.raising import raises


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sandbox" / "default" / "assistant"


def test_nothing_is_made_for_a_call_that_reads_or_asks_for_nothing(path, tmp_path):
    call = CallSandbox(path, {"sensitive"})

    call.for_reading()

    assert call.labels_read() == frozenset()
    assert os.listdir(tmp_path) == []


def test_labels_are_noted_before_a_call_gets_the_folder_and_read_after_it_has_read(path):
    reader = CallSandbox(path)
    reader.for_reading()
    writer = CallSandbox(path, {"sensitive", "from:fetch"})

    writer.for_writing()

    assert path.stat().st_mode & 0o777 == 0o700
    assert reader.labels_read() == {"sensitive"}, "written while the first call was reading"
    assert writer.labels_read() == frozenset(), "it has read nothing"


def test_a_call_that_gets_the_folder_itself_may_have_read_it_too(path):
    CallSandbox(path, {"sensitive"}).for_writing()
    call = CallSandbox(path, {"untrusted"})

    call.for_all()

    assert call.labels_read() == labels_of(path) == {"sensitive", "untrusted"}


def test_a_label_behind_one_that_was_cut_is_read(path):
    CallSandbox(path).for_writing()
    (path.parent / ".labels-assistant").write_text("untru")

    CallSandbox(path, {"sensitive"}).for_writing()

    assert "sensitive" in labels_of(path)


def test_no_folder_is_given_whose_labels_cannot_be_kept(path):
    CallSandbox(path).for_writing()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with raises(STORAGE_FULL, match="cannot be written: file too large"):
            CallSandbox(path, {"sensitive"}).for_writing()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_labels_that_cannot_be_read_are_an_error(path):
    call = CallSandbox(path)
    call.for_all()
    (path.parent / ".labels-assistant").mkdir()

    with pytest.raises(ToolFailed, match="labels of the sandbox's files cannot be read"):
        call.labels_read()
