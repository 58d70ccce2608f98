"""The loader of tools and observers: shipped ones, entry points of packages, the settings' plugins, and dotted paths.

Shipped ones use the same entry-point group as other packages; ``CALLBOARD_BUILTINS=0`` disables them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint
from pathlib import Path
from sysconfig import get_path
from typing import Any, Generic, TypeVar

from config.definitions import dotted_path
from config.definitions.dotted_path import NameMissing, NotImportable, file_of, import_path, reason_of, with_colon
from config.definitions.errors import DefinitionUnreadable
from config.errors import Permanent
from config.folders import ROOT
from config.forks import after_fork
from config.settings import Settings
from config.settings.project import installed_entries, shipped_entries
from config.text.names import did_you_mean

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


log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class PluginLoader(Generic[T]):
    """Finds plugins of one kind, and imports each on first use."""

    noun: str
    """The kind's name in errors; its entry-point group is ``callboard.<noun>s``."""
    attribute: str
    """The placeholder after the colon in a dotted path of this kind, for errors."""
    error: type[Permanent]
    accepts: Callable[[Any], bool]
    """Whether an object that ``CALLBOARD_PLUGINS`` lists is of this kind; if not, it is another kind's."""
    build: Callable[[Any, str, str | None, Settings], T]
    """Returns the plugin made of an imported object, its path and the name it is registered under, or raises."""
    name_of: Callable[[T], str]
    """Returns the name a plugin gives itself, by which ``CALLBOARD_PLUGINS`` makes it known."""
    others: Callable[[Settings], Iterable[str]] = lambda settings: ()
    """Returns the short names that definitions may use besides, for lists and suggestions."""

    def find(self, name: str, settings: Settings) -> T:
        """Return the plugin with this short name or dotted path.

        Raises:
            ToolUnknown, PluginUnknown: none has that name, or it cannot be imported or used; the message says why.
        """
        if ":" in name:
            return self.build(self._imported(name, settings), name, None, settings)
        entries = self.entries(settings)
        if name in entries:
            path = entries[name].value
            return self.build(self._imported(path, settings), path, name, settings)
        listed = self.listed(settings)
        if name in listed:
            return listed[name]
        raise self._unknown(name, sorted({*entries, *listed, *self.others(settings)}), settings)

    def unknown(self, name: str, settings: Settings) -> Permanent | None:
        """Return the error of a short name that nothing has, or None; nothing is imported, so no plugin is known."""
        if ":" in name or settings.plugin_paths:
            return None
        names = self.names(settings)
        return None if name in names else self._unknown(name, names, settings)

    def names(self, settings: Settings) -> list[str]:
        """Return the short names a definition may use, sorted; only what the settings list is imported."""
        return sorted({*self.entries(settings), *self.listed(settings), *self.others(settings)})

    def entries(self, settings: Settings) -> dict[str, EntryPoint]:
        """Return what is registered, by name; a shipped name cannot be taken while the shipped ones are on."""
        return _entries(f"callboard.{self.noun}s", settings.builtins)

    def listed(self, settings: Settings) -> dict[str, T]:
        """Import what ``CALLBOARD_PLUGINS`` lists and return what is of this kind, by the name it gives itself.

        A path without a name is a module that is imported for its effects. Of two plugins with one name the first
        counts. A broken plugin is logged and left out, so that it hides no other; the doctor names it as well.

        Raises:
            DefinitionUnreadable: the system did not let one be read, which may be the one that is wanted.
        """
        by_name: dict[str, T] = {}
        for path in settings.plugin_paths:
            try:
                thing = self._imported(path, settings)
                if self.accepts(thing):
                    plugin = self.build(thing, path, None, settings)
                    by_name.setdefault(self.name_of(plugin), plugin)
            except Exception as error:
                unreadable = DefinitionUnreadable.behind(error, Path(path))
                if unreadable is not None:  # what it would be is not known
                    raise unreadable from error
                log.warning("plugin '%s' cannot be used: %s", path, reason_of(error))
        return by_name

    def _imported(self, path: str, settings: Settings) -> Any:
        try:
            return import_path(path, settings)
        except NotImportable as error:
            remedy = restart_this(path) if isinstance(error, NameMissing) else ""
            raise self.error(f"{self.noun} '{path}' {error}{remedy}", name=path) from error

    def _unknown(self, name: str, names: list[str], settings: Settings) -> Permanent:
        path = f"write a dotted path, package.module:{self.attribute}.{restart_this()}"
        if name in shipped_entries(f"callboard.{self.noun}s") and not settings.builtins:
            off = f"it ships with Callboard, but CALLBOARD_BUILTINS turns the shipped {self.noun}s off"
            problem = f": {off}; turn them on, or {path}"
        else:
            near = did_you_mean(name, names) or with_colon(name, settings)
            listing = ", ".join(f"'{other}'" for other in names) or "none"
            problem = f".{near} Name a known one, or {path} Known {self.noun}s: {listing}."
        return self.error(f"{self.noun} '{name[:80]}' is not known{problem}", name=name, known=names)


@lru_cache(maxsize=8)
def _entries(group: str, with_shipped: bool) -> dict[str, EntryPoint]:
    shipped, installed = shipped_entries(group) if with_shipped else {}, installed_entries(group)
    for name in shipped.keys() & installed.keys():
        log.warning("'%s' of %s is not used: Callboard ships that name in %s", name, installed[name].value, group)
    return installed | shipped


def forget() -> None:
    """Clear the caches, so that the next call reads the entry points again."""
    _entries.cache_clear()
    dotted_path.forget()
