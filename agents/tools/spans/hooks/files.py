"""Hooks into ``open``, by its two names: pathlib uses the one of ``io``."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from agents.tools.spans.collector import is_collecting, span

_QUIET = ("/dev/", "/proc/", "/sys/")
"""Folders of the system, whose files libraries read all the time."""


def _open(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def hooked(file: Any, mode: str = "r", *others: Any, **more: Any) -> Any:
        if not is_collecting("file") or isinstance(file, int):
            return original(file, mode, *others, **more)
        path = os.fsdecode(os.fspath(file)) if isinstance(file, str | bytes | os.PathLike) else str(file)
        if path.startswith(_QUIET) and not path.startswith("/dev/shm/"):
            return original(file, mode, *others, **more)
        with span("file", f"open {os.path.basename(path)}", path=path, mode=mode):
            return original(file, mode, *others, **more)

    return hooked


FILE_HOOKS = (("builtins", "open", _open), ("io", "open", _open))
