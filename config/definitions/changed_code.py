"""Whether code or ``.env`` was changed after a process had started, which continues with what it has loaded."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from sysconfig import get_path

from config.definitions.dotted_path import file_of
from config.folders import ROOT
from config.forks import after_fork

process_began_s = time.time()


@after_fork
def _begin() -> None:
    global process_began_s
    process_began_s = time.time()


def changed_after(began_s: float, paths: Iterable[str]) -> list[str]:
    """Return what was changed after that time: the dotted paths' files, the installed packages and ``.env``."""
    files = {file.name: file for path in paths if (file := file_of(path)) is not None}
    places = files | {"the installed packages": Path(get_path("purelib")), ".env": ROOT / ".env"}
    return [name for name, source in places.items() if _changed_s(source) > began_s]


def restart(changed: Iterable[str]) -> str:
    """Return `` Restart the workers: they started before …`` with a leading space, or an empty text."""
    names = " and ".join(changed)
    return f" Restart the workers: they started before {names} changed." if names else ""


def restart_this(path: str = "") -> str:
    """Return the same where packages, ``.env`` or a module that this process has loaded changed after its start."""
    return restart(changed_after(process_began_s, [path] if path else ()))


def _changed_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
