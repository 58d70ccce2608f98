"""Imports what a dotted path names, ``package.module:name``, where the settings allow its module.

Definitions name tools and observers this way, and a definition may come from somebody who should not choose
which code of this machine runs: ``pip:main`` is a function with a docstring as well. Which modules may be named
is decided before any of them is imported. Importing may raise anything and may never end; here it costs one
thread, and becomes one sentence.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
import time
import traceback
from functools import lru_cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from config.errors import did_you_mean
from config.forks import after_fork
from config.project import installed_entries, shipped_entries
from config.rooms import ROOMS
from config.settings import ROOT, Settings

GROUPS = ("callboard.tools", "callboard.observers")
"""Entry-point groups whose packages may be named."""
IMPORT_S = 30.0
"""Seconds a module may take to be imported."""
MAX_REASON = 300
"""Characters of an exception's text that are repeated."""
_HERE = "."
"""In the setting: every module that lies in the working folder."""


class NotImportable(Exception):
    """A dotted path cannot be used; the text is a sentence that begins behind the path."""


def import_path(path: str, settings: Settings) -> Any:
    """Return what ``path`` names: an attribute of a module, or without ``:name`` the module.

    A path that is one of ``CALLBOARD_PLUGINS``, or that the caller read from an entry point, is allowed as well.

    Raises:
        NotImportable: its module may not be named, cannot be imported, takes too long, or has no such attribute.
    """
    module_name, _, attribute = (part.strip() for part in path.partition(":"))
    require_allowed(module_name, settings)
    thing = _module(module_name)
    for part in attribute.split(".") if attribute else ():
        thing = _attribute(thing, part.strip(), module_name)
        if isinstance(thing, ModuleType):  # what a module has imported is no part of it: `my_tools:pip.main`
            require_allowed(thing.__name__, settings)
    return thing


def reason_of(wrong: BaseException) -> str:
    """Return type and text of a stranger's exception on one line; the text may be missing or raise itself."""
    try:
        text = " ".join(str(wrong).split())
    except Exception:
        text = "its text cannot be read"
    return f"{type(wrong).__name__}: {text}"[:MAX_REASON] if text else type(wrong).__name__


# --- which modules may be named ---------------------------------------------------------------------


def require_allowed(module_name: str, settings: Settings) -> None:
    """The settings let definitions name this module; nothing is imported to find out.

    Raises:
        NotImportable: they do not; the sentence names the setting.
    """
    allowed = settings.tool_module_names
    if module_name in _shipped_modules() or _is_beneath(module_name, (*allowed, *_plugin_modules(settings))):
        return
    top = module_name.partition(".")[0]
    spec = _spec_of(top)
    if spec is None and top not in sys.modules:  # importing it says what is wrong
        return
    if spec is not None and _HERE in allowed and top not in ROOMS and _is_in_working_folder(spec):
        return
    raise NotImportable(
        f"is not allowed: '{top}' is neither a module of the working folder nor an installed plugin. Call it from a "
        f"function of your own module, or, where a model may call everything in it, "
        f"set CALLBOARD_TOOL_MODULES={','.join((*allowed, top))}."
    )


def _is_beneath(module_name: str, packages: tuple[str, ...]) -> bool:
    return any(module_name == package or module_name.startswith(f"{package}.") for package in packages)


@lru_cache(maxsize=8)
def _plugin_modules(settings: Settings) -> tuple[str, ...]:
    """Return the packages of installed plugins and of ``CALLBOARD_PLUGINS``."""
    named = [entry.value for group in GROUPS for entry in installed_entries(group).values()]
    modules = [path.partition(":")[0].strip() for path in (*named, *settings.plugin_paths)]
    packages = {module.rpartition(".")[0] or module for module in modules}
    return tuple(sorted(package for package in packages if package.partition(".")[0] not in ROOMS))


@lru_cache(maxsize=1)
def _shipped_modules() -> frozenset[str]:
    """Return the modules of the tools and observers that ship; others of Callboard's hold what no model should call."""
    return frozenset(entry.module for group in GROUPS for entry in shipped_entries(group).values())


def _spec_of(top: str) -> ModuleSpec | None:
    """Return where a top-level module would be imported from; a top-level module is found without importing any."""
    try:
        return importlib.util.find_spec(top)
    except Exception:  # a finder of somebody else's, or a module without a spec: the program itself (`__main__`)
        return None


def _is_in_working_folder(spec: ModuleSpec) -> bool:
    """Whether the module lies directly in the working folder, so that an environment beneath it does not count."""
    places = list(spec.submodule_search_locations or ())
    if not places and spec.has_location and spec.origin:
        places = [spec.origin]
    folders = {ROOT.resolve(), Path.cwd().resolve()}
    return bool(places) and all(Path(place).resolve().parent in folders for place in places)


# --- importing --------------------------------------------------------------------------------------


class _Import(threading.Thread):
    """Imports one module; what it raises, also SystemExit, ends nothing but this thread."""

    def __init__(self, module_name: str) -> None:
        super().__init__(name=f"import {module_name}", daemon=True)
        self.module_name = module_name
        self.ends_s = time.monotonic() + IMPORT_S
        self.wrong: BaseException | None = None

    def run(self) -> None:
        try:
            importlib.import_module(self.module_name)
        except BaseException as wrong:
            self.wrong = wrong


_lock = threading.Lock()
_at_work: dict[str, _Import] = {}
"""Imports that have not ended, or that nobody saw ending."""
_imported: set[str] = set()


@after_fork
def _renew() -> None:
    global _lock
    _lock = threading.Lock()
    _at_work.clear()  # by threads of the parent


def forget() -> None:
    """Look again at the next call."""
    _imported.clear()
    _plugin_modules.cache_clear()


def _module(module_name: str) -> Any:
    if module_name not in _imported or module_name not in sys.modules:
        _import(module_name)
        _imported.add(module_name)
    return sys.modules[module_name]


def _import(module_name: str) -> None:
    with _lock:
        work = _at_work.get(module_name)
        if work is None or not work.is_alive():  # of a parent process's imports none goes on in a child
            work = _at_work[module_name] = _Import(module_name)
            work.start()
    work.join(max(0.0, work.ends_s - time.monotonic()))
    if work.is_alive():
        raise NotImportable(f"cannot be imported ({module_name} did not finish within {IMPORT_S:g} seconds).")
    with _lock:
        if _at_work.get(module_name) is work:
            del _at_work[module_name]
    if work.wrong is not None:
        raise _not_imported(module_name, work.wrong) from work.wrong
    if module_name not in sys.modules:
        raise NotImportable("cannot be imported (it took itself out of the loaded modules).")


def _not_imported(module_name: str, wrong: BaseException) -> NotImportable:
    reason = reason_of(wrong)
    if isinstance(wrong, ModuleNotFoundError) and _is_beneath(module_name, (wrong.name or "",)):
        return NotImportable(
            f"cannot be imported ({reason}); write package.module:name, and install the package or put it into the "
            "working folder."
        )
    frames = traceback.extract_tb(wrong.__traceback__)
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return NotImportable(f"cannot be imported: the module itself raised {reason}{where}.")


def _attribute(thing: Any, name: str, module_name: str) -> Any:
    if name.startswith("__"):
        raise NotImportable(f"cannot be used: '{name}' is Python's own; name a function or class of {module_name}.")
    try:
        return getattr(thing, name)
    except AttributeError as wrong:
        names = [known for known in vars(thing) if not known.startswith("_")] if hasattr(thing, "__dict__") else []
        raise NotImportable(
            f"cannot be found: there is no '{name}' in {module_name}.{did_you_mean(name, names)}"
        ) from wrong
    except (Exception, SystemExit) as wrong:  # a module may answer for its names itself, and raise anything
        raise NotImportable(f"cannot be read ({reason_of(wrong)}).") from wrong
