"""Callboard's own files of a checkout: those that git tracks, with the definitions of ``config/`` as they are staged.

Checks and tests run in a copy of them, so that they meet no agent, server, rule, tool or test of the checkout's user
(docs/decisions/0040-tiers-of-tests.md).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from config.folders import FOLDERS, ROOT

LANDMARK = "callboard"
"""The executable; where git does not track it, the repository is that of an application with a Callboard in it."""
SHARED = (".venv", ".mypy_cache", ".import_linter_cache", ".hypothesis")
"""Folders that a copy shares with its checkout: the environment, and what earlier checks and tests found out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnFiles:
    """The names of the files that a copy has."""

    kept: Sequence[str]
    """Those of the working tree."""
    staged: Sequence[str] = ()
    """Definitions, whose staged text counts: a user edits and removes them."""
    others: Sequence[str] = ()
    """What a copy leaves out, or has in another version."""
    is_tracked: bool = True
    """Whether git knows; otherwise the copy has everything that it would not ignore."""


def own_files(root: Path = ROOT) -> OwnFiles:
    """Return which files of the checkout are Callboard's own."""
    tracked = _git(root, "ls-files", "-z", "--cached")
    if LANDMARK not in tracked:
        return OwnFiles(kept=sorted(_unignored(root)), is_tracked=False)
    staged = {name for name in tracked if _is_definition(root, name)}
    names = [name for name in tracked if name not in staged and (root / name).is_file()]
    new = _git(root, "ls-files", "-z", "--others", "--exclude-standard", "--", *FOLDERS, "clients", "docs", "tests")
    edited = _git(root, "diff", "-z", "--name-only", "--relative", "--", "config")
    others = sorted({*new, *staged.intersection(edited)})
    return OwnFiles(kept=names, staged=sorted(staged), others=others)


_REMOVE = """
import shutil, signal, sys, time
from pathlib import Path
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
sys.stdin.read()  # ends when the process that made the folder has ended, however it did
until = time.monotonic() + 60
while Path(sys.argv[1]).exists() and time.monotonic() < until:
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    time.sleep(0.2)  # what still writes there is being ended
"""


PREFIX = "cb-"
YOUNG_S = 60.0
"""Seconds for which a folder without a lock counts as one that its process has just made."""


@contextmanager
def temporary_folder(parent: Path | None) -> Iterator[str]:
    """Yield a folder that is removed afterwards, also when this process is killed.

    This process locks it. A folder without a lock was left by a process that was killed together with what removes its
    folder, as when a container ends; the next call removes it.
    """
    remove_abandoned(parent or Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=parent, ignore_cleanup_errors=True) as name, locked(Path(name)):
        command = (sys.executable, "-I", "-S", "-c", _REMOVE, name)
        with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as remover:
            yield name
            remover.kill()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder; the kernel unlocks it when this process ends.

    Raises:
        BlockingIOError: another process has locked it.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def remove_abandoned(parent: Path) -> None:
    """Remove the temporary folders in ``parent`` whose processes have ended."""
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):  # another process locks it, owns it, or removes it now
            facts = folder.lstat()
            if time.time() - facts.st_mtime > YOUNG_S and facts.st_uid == os.getuid():
                with locked(folder):
                    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def copied(files: OwnFiles, parent: Path | None = None, root: Path = ROOT) -> Iterator[Path]:
    """Yield a folder with a copy of the files, which is removed afterwards."""
    with temporary_folder(parent) as name:
        folder = Path(name)
        folder.chmod(0o711)  # Postgres runs as a user of its own
        copy(files, folder, root)
        yield folder


def copy(files: OwnFiles, folder: Path, root: Path = ROOT) -> None:
    """Copy the files into the folder, with what Python compiled of them and the checkout's caches."""
    for name in files.kept:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, folder / name, follow_symlinks=False)
    staged = "".join(f"{name}\0" for name in files.staged)
    if staged:
        command = ("git", "checkout-index", "-z", "--stdin", f"--prefix={folder}{os.sep}")
        subprocess.run(command, cwd=root, input=staged, text=True, check=True, capture_output=True)
    for name in (*SHARED, *_compiled(files.kept)):
        with suppress(OSError):  # a checkout that cannot be written to
            (root / name).mkdir(exist_ok=True)
            (folder / name).symlink_to((root / name).resolve(), target_is_directory=True)


def _compiled(names: Iterable[str]) -> set[str]:
    """Return the folders of what Python and pytest compiled; each of the two corrects the path of the file in it."""
    modules = (Path(name) for name in names if name.endswith(".py") and name.partition("/")[0] in (*FOLDERS, "tests"))
    return {str(module.parent / "__pycache__") for module in modules}


def _is_definition(root: Path, name: str) -> bool:
    """Tell whether a file is one of those that users write: in ``config/``, and no part of the package."""
    folder, _, rest = name.partition("/")
    inner, _, below = rest.partition("/")
    if folder != "config":
        return False
    return not (root / folder / inner / "__init__.py").exists() if below else not inner.endswith(".py")


def _unignored(root: Path) -> Iterator[str]:
    """Yield the files that ``.gitignore`` does not name."""
    lines = (root / ".gitignore").read_text().split() if (root / ".gitignore").exists() else ()
    ignored = shutil.ignore_patterns(".git", *(line.rstrip("/") for line in lines))
    for folder, folders, names in os.walk(root):
        left_out = ignored(folder, [*folders, *names])
        folders[:] = sorted(set(folders) - left_out)
        yield from (os.path.relpath(os.path.join(folder, name), root) for name in set(names) - left_out)


def _git(root: Path, *words: str) -> list[str]:
    """Return the names that git prints; none where it is missing, or refuses to look at this folder."""
    try:
        ran = subprocess.run(("git", *words), cwd=root, capture_output=True, text=True, check=False)
    except OSError:
        return []
    return ran.stdout.split("\0")[:-1] if ran.returncode == 0 else []
