"""What is kept in the state folder is open to its owner alone, and nothing is written through a symbolic link."""

from __future__ import annotations

import ast
import errno
import fcntl
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from bus.journal.retention.retention import remove_old_logs
from cli.supervisor.output import Output
from cli.supervisor.pid_lock import PidLock
from config.database.migrate import make_folder, migrate
from config.errors import STATE_DIR_EXPOSED
from config.folders import FOLDERS, ROOT
from config.private_files import lock_private, open_private, private_folder, require_private
from config.redis.server import socket_path
from config.settings import Settings
from observers.logfile.rotated_file import LogSlot, RotatedFile
from tests.raising import raises


@pytest.fixture(autouse=True)
def open_umask() -> object:
    """Whatever is private here is so by Callboard, not by who started it."""
    before = os.umask(0)
    yield
    os.umask(before)


def settings_of(state: Path) -> Settings:
    return Settings(_env_file=None, state_dir=state)  # type: ignore[call-arg]  # pydantic-settings' own


def permissions(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def open_entries(folder: Path) -> list[str]:
    """Return what group or others could use in a folder, the folder itself included."""
    paths = (folder, *folder.rglob("*"))
    return [f"{path} {permissions(path):o}" for path in paths if permissions(path) & 0o077 and not path.is_symlink()]


def take_and_release(path: Path) -> None:
    lock = PidLock(path)
    lock.take()
    lock.release()


def open_and_close(path: Path) -> None:
    os.close(open_private(path))


WRITERS: dict[str, Callable[[Path], object]] = {
    "up.lock": take_and_release,
    "up.log": lambda path: Output(path, verbose=False).close(),
    "runs-0.log": lambda path: RotatedFile(max_bytes=1000, keep=2).append(path, b"line\n"),
    "redis.sock.path": open_and_close,
}


def test_a_new_state_folder_is_private_with_all_that_was_made_above_it(tmp_path: Path) -> None:
    migrate(settings_of(tmp_path / "deep" / "state"))

    assert open_entries(tmp_path / "deep") == []
    assert (tmp_path / "deep" / "state" / "callboard.db").exists()


def test_a_wide_state_folder_of_before_is_narrowed(tmp_path: Path) -> None:
    state = tmp_path / "state"
    (state / "logs").mkdir(parents=True)
    for name in ("callboard.db", "up.lock", "logs/up.log", "logs/runs-0.log", "notes.txt"):
        (state / name).touch(0o666)
    state.chmod(0o777)

    make_folder(settings_of(state))

    require_private(state)
    assert [permissions(state / name) for name in ("callboard.db", "up.lock", "logs/up.log", "logs/runs-0.log")] == [
        0o600
    ] * 4
    assert permissions(state / "notes.txt") == 0o666  # not ours


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o1777])
def test_another_users_open_folder_is_refused_and_not_touched(tmp_path: Path, mode: int) -> None:
    state = tmp_path / "home"
    state.mkdir()
    (state / "letters.txt").touch()
    state.chmod(mode)

    make_folder(settings_of(state))
    with raises(STATE_DIR_EXPOSED, match="chmod 700"):
        require_private(state)

    assert permissions(state) == mode


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_of_ours_is_made_private(tmp_path: Path, name: str) -> None:
    path = private_folder(tmp_path / "new" / "folder") / name

    WRITERS[name](path)

    assert open_entries(tmp_path / "new") == []
    assert permissions(path) == 0o600


@pytest.mark.parametrize("name", WRITERS)
def test_no_file_is_written_through_a_link(tmp_path: Path, name: str) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("mine")
    (tmp_path / name).symlink_to(precious)

    with pytest.raises(OSError, match="symbolic link"):
        WRITERS[name](tmp_path / name)

    assert precious.read_text() == "mine"


@pytest.mark.parametrize("name", ["callboard.db", "up.lock", "callboard.db-wal", "logs/up.log", "logs/runs-0.log"])
def test_a_link_in_the_state_folder_is_refused(tmp_path: Path, name: str) -> None:
    state = tmp_path / "state"
    migrate(settings_of(state))
    private_folder(state / "logs")
    (state / name).unlink(missing_ok=True)
    (state / name).symlink_to(tmp_path / "elsewhere")
    if name == "callboard.db":
        (state / "up.lock").touch(0o600)

    with raises(STATE_DIR_EXPOSED, match="symbolic link"):
        make_folder(settings_of(state))

    assert not (tmp_path / "elsewhere").exists()


def test_locks_of_logs_and_the_sockets_note_are_private(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    slot = LogSlot(logs)
    slot.path()
    (logs / "runs-7.log").touch(0o600)
    os.utime(logs / "runs-7.log", (0, 0))
    remove_old_logs(logs, before_s=1000)
    long = private_folder(tmp_path / ("x" * 90))
    socket_path(long)

    assert open_entries(logs) == []
    assert open_entries(long) == []


MAKES = {"mkdir", "makedirs", "write_text", "write_bytes", "touch", "open"}
ELSEWHERE = {
    "config/private_files.py": "the one place",
    "config/database/backup.py": "writes where the caller says, O_NOFOLLOW and 0600 itself",
    "config/database/turn.py": "beside the database, O_NOFOLLOW and 0600 itself",
    "config/redis/server.py": "a folder of 0700 in the runtime folder, checked to be ours",
    "cli/supervisor/embedded_redis.py": "a folder of 0700, in place of one set aside",
    "cli/commands/crashtest.py": "a temporary folder of its own",
    "cli/supervisor/output.py": "the null device alone",
    "agents/testing.py": "a temporary folder of its own",
    "agents/tools/isolation/sandbox.py": "beneath a descriptor, O_NOFOLLOW and 0600 itself",
    "bus/journal/states/table.py": "a document of the checkout",
    "cli/dev/commands/bench.py": "a document of the checkout",
    "cli/dev/completion.py": "a file of the checkout",
    "cli/dev/error_catalogue.py": "a document of the checkout",
    "cli/dev/contracts/__main__.py": "documents of the checkout",
    "cli/dev/commands/docs.py": "the site, in a folder that the user names",
    "cli/dev/commands/lock.py": "files of the checkout",
    "cli/dev/own_files.py": "a temporary folder of its own, and caches of the checkout",
    "cli/commands/capability.py": "files of the user's project",
    "cli/commands/repeats.py": "folders that the user names, above a private file",
    "agents/tools/isolation/call_folder.py": "beside the sandbox, O_NOFOLLOW and 0600 itself",
}
"""Files that may make files without ``open_private``, and why."""


@pytest.mark.parity
def test_files_are_made_in_one_place() -> None:
    folders = [room for room in FOLDERS if room != "tests"]
    sources = [path for room in folders for path in (ROOT / room).rglob("*.py") if "crashlab" not in path.parts]

    paths = {str(path.relative_to(ROOT)) for path in sources if _makes_files(path.read_text())}

    assert paths - ELSEWHERE.keys() == set()


def _makes_files(source: str) -> bool:
    """Whether the source has a call that may make a file or a folder."""
    if not re.search(rf"\b(?:{'|'.join(MAKES)})\s*\(", source):  # parsing every file takes a second
        return False
    return any(map(_makes_a_file, ast.walk(ast.parse(source))))


def _makes_a_file(node: ast.AST) -> bool:
    """Whether this is a call that may make a file or a folder."""
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name != "open":
        return name in MAKES and isinstance(node.func, ast.Attribute) and _is_no_sandbox(node.func.value)
    source = ast.unparse(node)
    modes = [
        constant.value
        for constant in ast.walk(node)
        if isinstance(constant, ast.Constant) and isinstance(constant.value, str)
    ]
    return "O_CREAT" in source or any(mode and set(mode) <= set("wax+bt") and set(mode) & set("wax") for mode in modes)


def _is_no_sandbox(value: ast.expr) -> bool:
    return "sandbox" not in ast.unparse(value).lower()


def test_a_file_that_cannot_be_locked_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    before = os.listdir("/proc/self/fd")

    for _ in range(3):
        with pytest.raises(OSError, match="No locks"):
            lock_private(tmp_path / "runs-0.lock")

    assert len(os.listdir("/proc/self/fd")) == len(before)
