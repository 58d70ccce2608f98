"""Hooks into libraries that tools use: what they do in a call of a tool or a model is a span.

A hook replaces a function of a library by one that asks a context variable and calls it, when the library is imported
or at once if it is. A worker installs them before its first call; other processes do not.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wrapt import register_post_import_hook

from agents.tools.spans.hooks.asyncpg import ASYNCPG_HOOKS
from agents.tools.spans.hooks.http import FILE_HOOKS, HTTP_HOOKS
from agents.tools.spans.hooks.sql import PSYCOPG2_HOOKS, SQL_HOOKS
from config.forks import after_fork

Wrap = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class _Installed:
    owner: Any
    name: str
    original: Any
    replacement: Any


_PLACES: dict[str, dict[str, Wrap]] = {}
"""Module -> dotted name in it -> what makes the replacement."""
for _module, _name, _wrap in (*HTTP_HOOKS, *SQL_HOOKS, *PSYCOPG2_HOOKS, *ASYNCPG_HOOKS, *FILE_HOOKS):
    _PLACES.setdefault(_module, {})[_name] = _wrap
_is_on = _is_watching = False
_installed: dict[tuple[str, str], _Installed] = {}
_lock = threading.Lock()


@after_fork
def _renew() -> None:
    global _lock
    _lock = threading.Lock()


def enable_hooks() -> None:
    """Hook every library of the list in this process: now if it is imported, else when its import ends."""
    global _is_on, _is_watching
    _is_on = True
    if not _is_watching:
        _is_watching = True
        for module_name in _PLACES:
            register_post_import_hook(_install_all, module_name)  # there is no way back: `_is_on` decides
    for module_name in _PLACES.keys() & sys.modules.keys():
        _install_all(sys.modules[module_name])


def _install_all(module: Any) -> None:
    if not _is_on:
        return
    for name, wrap in _PLACES[module.__name__].items():
        _install(module.__name__, name, wrap)


def _install(module_name: str, name: str, wrap: Wrap) -> None:
    with _lock:
        if (module_name, name) in _installed:
            return
        owner: Any = sys.modules[module_name]
        *path, last = name.split(".")
        for part in path:
            owner = getattr(owner, part, None)
        original = getattr(owner, last, None)
        if original is None:
            return  # another release
        replacement = wrap(original)
        setattr(owner, last, replacement)
        _installed[module_name, name] = _Installed(owner, last, original, replacement)


def remove_hooks() -> None:
    """Disable the hooks and put the libraries' own functions back, where no other code has replaced ours meanwhile."""
    global _is_on
    _is_on = False
    with _lock:
        for hook in _installed.values():
            if getattr(hook.owner, hook.name, None) is hook.replacement:
                setattr(hook.owner, hook.name, hook.original)
        _installed.clear()
