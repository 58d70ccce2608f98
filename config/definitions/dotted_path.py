"""Imports what a dotted path names, ``package.module:name``, where the settings allow its module.

Definitions name tools and observers this way, and the author of a definition must not choose freely which code of
this machine runs: ``pip:main`` is a function with a docstring as well. Whether a module may be named is decided before
it is imported; whether a function was only imported into it is checked afterwards. Importing may raise anything and
may never end: it costs one thread, and failures become one sentence.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import threading
import time
import traceback
from concurrent.futures import Future
from functools import lru_cache, partial
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

from config.definitions.errors import DefinitionUnreadable
from config.folders import FOLDERS
from config.forks import after_fork
from config.settings import ROOT, Settings
from config.settings.project import installed_entries, shipped_entries
from config.text.names import did_you_mean

GROUPS = ("callboard.tools", "callboard.observers", "callboard.blueprints", "callboard.node_types")
"""Entry-point groups whose packages may be named."""
IMPORT_S = 30.0
"""Seconds a module may take to be imported."""
MAX_REASON = 300
"""Characters of an exception's text that are repeated."""
_STANDARD_LIBRARY = {Path(importlib.__file__).parent, Path(traceback.__file__).parent}
"""Folders of the modules that import others, and of most others that a mistake at import is raised in."""
_WORKING_FOLDER = "."
"""In the setting: every module that lies in the working folder."""


class NotImportable(Exception):
    """A dotted path cannot be used; the text is a sentence that begins behind the path."""


class NameMissing(NotImportable):
    """The module is there, and has no such name."""


def import_path(path: str, settings: Settings) -> Any:
    """Return what ``path`` names: an attribute of a module, or without ``:name`` the module.

    A path that is one of ``CALLBOARD_PLUGINS``, or that the caller read from an entry point, is allowed as well.

    Raises:
        NotImportable: its module may not be named, cannot be imported, takes too long, or has no such attribute.
        DefinitionUnreadable: the system did not let its module be read; the next call imports it again.
    """
    module_name, attribute = _split(path)
    require_allowed(path, settings)
    thing = _module(module_name)
    parts = attribute.split(".") if attribute else []
    for position, part in enumerate(parts, 1):
        thing = _attribute(thing, part, module_name)
        if isinstance(
            thing, ModuleType
        ):  # a module that another one imported needs its own permission: `my_tools:pip.main`
            require_allowed(f"{thing.__name__}:{'.'.join(parts[position:])}", settings)
    return thing


def require_own(function: Any, path: str, settings: Settings) -> None:
    """Check that the function at ``path`` is defined in a module that may be named, or is registered under that path.

    ``from subprocess import run`` makes ``my_tools:run`` no function of ``my_tools``.

    Raises:
        NotImportable: it is defined elsewhere; the sentence names the module and the setting.
    """
    if ":".join(_split(path)) in _registered(settings)[0]:
        return
    origin = _origin_of(function)
    home = str(getattr(origin, "__module__", None) or "builtins")
    if not _is_allowed(f"{home}:{getattr(origin, '__qualname__', '')}", settings):
        raise NotImportable(f"is not allowed: it is imported there from '{home}', and {_refusal(home, settings)}")


def with_colon(path: str, settings: Settings) -> str:
    """Return `` Did you mean 'package.module:name'?`` where that module is there and may be named, or nothing.

    No module is imported to find out, not even the packages above it.
    """
    module_name, _, name = path.rpartition(".")
    meant = f"{module_name}:{name}"
    if not module_name or not name.isidentifier() or not _is_there(module_name) or not _is_allowed(meant, settings):
        return ""
    return f" Did you mean '{meant}'?"


def reason_of(error: BaseException) -> str:
    """Return type and text of a foreign exception on one line; the text may be missing or raise itself."""
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = "its text cannot be read"
    return f"{type(error).__name__}: {text}"[:MAX_REASON] if text else type(error).__name__


# --- which modules may be named ---------------------------------------------------------------------


def require_allowed(path: str, settings: Settings) -> None:
    """Check that the settings allow definitions to name this path, or this module, without importing anything.

    Raises:
        NotImportable: they do not; the sentence names the setting.
    """
    module_name, _ = _split(path)
    top = module_name.partition(".")[0]
    if _is_allowed(path, settings) or (_spec_of(top) is None and top not in sys.modules):
        return  # importing a module that does not exist raises the better error
    raise NotImportable(f"is not allowed: {_refusal(module_name, settings)}")


def _is_allowed(path: str, settings: Settings) -> bool:
    module_name, attribute = _split(path)
    paths, packages = _registered(settings)
    allowed = settings.tool_module_names
    if f"{module_name}:{attribute}" in paths or _is_beneath(module_name, (*allowed, *packages)):
        return True
    top = module_name.partition(".")[0]
    spec = _spec_of(top)
    return spec is not None and _WORKING_FOLDER in allowed and top not in FOLDERS and _is_in_working_folder(spec)


def _refusal(module_name: str, settings: Settings) -> str:
    """Return why a module may not be named, and what to do."""
    top = module_name.partition(".")[0]
    shipped = [entry.attr for entry in _shipped() if entry.module == module_name]
    if shipped:
        reason = f"of '{module_name}' only {' and '.join(repr(name) for name in sorted(shipped))} may be named"
    else:
        reason = f"'{top}' is neither a module of the working folder nor an installed plugin"
    return (
        f"{reason}. Call it from a function of your own module, or, where a model may call everything in it, "
        f"set CALLBOARD_TOOL_MODULES={','.join((*settings.tool_module_names, top))}."
    )


def _split(path: str) -> tuple[str, str]:
    """Return module and attribute of a dotted path, without spaces; a module alone has the attribute ""."""
    module_name, _, attribute = path.partition(":")
    return module_name.strip(), ".".join(part.strip() for part in attribute.split("."))


def _origin_of(function: Any) -> Any:
    """Return what is called in the end, beneath decorators and given arguments."""
    while isinstance(function, partial):
        function = function.func
    try:
        return inspect.unwrap(function)
    except ValueError:  # it wraps itself
        return function


def _is_beneath(module_name: str, packages: tuple[str, ...]) -> bool:
    return any(module_name == package or module_name.startswith(f"{package}.") for package in packages)


@lru_cache(maxsize=8)
def _registered(settings: Settings) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the paths that an entry point or the settings register one by one, and the packages of installed plugins.

    Of Callboard's own modules only the paths of its own entry points may be named.
    """
    installed = [entry.value for group in GROUPS for entry in installed_entries(group).values()]
    named = [_split(path) for path in (*installed, *settings.plugin_paths)]
    others = [(module, attribute) for module, attribute in named if module.partition(".")[0] not in FOLDERS]
    shipped = [(entry.module, entry.attr) for entry in _shipped()]
    packages = {module.rpartition(".")[0] or module for module, _ in others}
    return frozenset(":".join(path) for path in (*shipped, *others)), tuple(packages)


def _shipped() -> list[EntryPoint]:
    return [entry for group in GROUPS for entry in shipped_entries(group).values()]


def _spec_of(top: str) -> ModuleSpec | None:
    """Return where a top-level module would be imported from; a top-level module is found without importing any."""
    try:
        return importlib.util.find_spec(top)
    except Exception:  # a foreign finder, or a module without a spec: the program itself (`__main__`)
        return None


def _is_there(module_name: str) -> bool:
    return _spec_without_import(module_name) is not None


def file_of(path: str) -> Path | None:
    """Return the file of a dotted path's module, or None where it has none; nothing is imported."""
    spec = _spec_without_import(_split(path)[0])
    return Path(spec.origin) if spec is not None and spec.has_location and spec.origin else None


def _spec_without_import(module_name: str) -> ModuleSpec | None:
    """Return where a module would be imported from; a package's folder is searched without importing the package."""
    first, *rest = module_name.split(".")
    spec = _spec_of(first)
    for part in rest:
        if spec is None or spec.submodule_search_locations is None:
            return None
        # By its last name: the folders of a package without `__init__.py` are looked up in `sys.modules` by its parent.
        spec = PathFinder.find_spec(part, list(spec.submodule_search_locations))
    return spec


def _is_in_working_folder(spec: ModuleSpec) -> bool:
    """Whether the module lies directly in the working folder, so that an environment beneath it does not count."""
    places = list(spec.submodule_search_locations or ())
    if not places and spec.has_location and spec.origin:
        places = [spec.origin]
    folders = {ROOT.resolve(), Path.cwd().resolve()}
    return bool(places) and all(Path(path).resolve().parent in folders for path in places)


# --- importing --------------------------------------------------------------------------------------


_lock = threading.Lock()
_at_work: dict[str, tuple[Future[Any], float]] = {}
"""Imports that run, or whose end no caller has seen, each with the time at which it takes too long."""
_imported: set[str] = set()


@after_fork
def _renew() -> None:
    global _lock
    _lock = threading.Lock()
    _at_work.clear()  # their threads run in the parent


def forget() -> None:
    """Clear the caches, so that the next call reads the entry points again."""
    _imported.clear()
    _registered.cache_clear()


def _module(module_name: str) -> Any:
    if module_name in _imported and module_name in sys.modules:
        return sys.modules[module_name]
    with _lock:
        if module_name not in _at_work:
            _at_work[module_name] = _begin_import(module_name)
        work, ends_s = _at_work[module_name]
    try:
        error = work.exception(max(0.0, ends_s - time.monotonic()))
    except TimeoutError:
        problem = f"cannot be imported ({module_name} did not finish within {IMPORT_S:g} seconds)."
        raise NotImportable(problem) from None
    with _lock:
        if _at_work.get(module_name, (None,))[0] is work:  # else it is another caller's later import
            del _at_work[module_name]
    if error is not None:
        unreadable = DefinitionUnreadable.behind(error, Path(module_name))
        if unreadable is not None:
            raise unreadable from error
        raise _not_imported(module_name, error) from error
    _imported.add(module_name)
    return work.result()


def _begin_import(module_name: str) -> tuple[Future[Any], float]:
    """Import a module on a thread of its own; whatever it raises, also SystemExit, ends only that thread."""
    work: Future[Any] = Future()

    def run() -> None:
        try:
            work.set_result(importlib.import_module(module_name))
        except BaseException as error:
            work.set_exception(error)

    threading.Thread(target=run, name=f"import {module_name}", daemon=True).start()
    return work, time.monotonic() + IMPORT_S


def _not_imported(module_name: str, error: BaseException) -> NotImportable:
    reason = reason_of(error)
    if isinstance(error, ModuleNotFoundError) and _is_beneath(module_name, (error.name or "",)):
        return NotImportable(
            f"cannot be imported ({reason}); write package.module:name, and install the package or put it into the "
            "working folder."
        )
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _is_users(frame.filename)] or frames
    where = f" at {own[-1].filename}:{own[-1].lineno}" if own else ""
    return NotImportable(f"cannot be imported: the module itself raised {reason.removesuffix('.')}{where}.")


def _is_users(filename: str) -> bool:
    """Whether a line of a traceback is neither Python's nor Callboard's, but of what the user wrote or installed."""
    ours = any(Path(filename).is_relative_to(ROOT / folder) for folder in FOLDERS)
    return not (ours or filename.startswith("<") or Path(filename).parent in _STANDARD_LIBRARY)


def _attribute(thing: Any, name: str, module_name: str) -> Any:
    if name.startswith("__"):
        raise NotImportable(f"cannot be used: '{name}' is Python's own; name a function or class of {module_name}.")
    try:
        return getattr(thing, name)
    except AttributeError as error:
        names = [var for var in vars(thing) if not var.startswith("_")] if hasattr(thing, "__dict__") else []
        raise NameMissing(
            f"cannot be found: there is no '{name}' in {module_name}.{did_you_mean(name, names)}"
        ) from error
    except (Exception, SystemExit) as error:  # a module's own __getattr__ may raise anything
        unreadable = DefinitionUnreadable.behind(error, Path(module_name))
        if unreadable is not None:
            raise unreadable from error
        raise NotImportable(f"cannot be read ({reason_of(error)}).") from error
