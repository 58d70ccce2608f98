import errno
import fcntl
import os

from cli.supervisor.pid_lock import PidLock
from config.database.errors import STATE_DIR_UNWRITABLE
from tests.raising import raises


def test_the_second_one_gets_the_address_of_the_first(tmp_path):
    first, second = PidLock(tmp_path / "up.lock"), PidLock(tmp_path / "up.lock")
    assert first.take() is None
    first.announce("http://127.0.0.1:8000")

    owner = second.take()

    assert owner is not None
    assert (owner.pid, owner.address) == (os.getpid(), "http://127.0.0.1:8000")
    first.release()


def test_a_lock_whose_owner_is_gone_is_free_whatever_the_file_says(tmp_path):
    (tmp_path / "up.lock").write_text('{"pid": 1, "address": "http://old"}')

    lock = PidLock(tmp_path / "up.lock")

    assert lock.take() is None
    lock.release()
    assert lock.take() is None
    lock.release()


def test_a_folder_whose_file_system_has_no_locks_is_not_taken_for_one_that_is_in_use(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)

    with raises(STATE_DIR_UNWRITABLE, match="No locks available"):
        PidLock(tmp_path / "up.lock").take()
