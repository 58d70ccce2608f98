"""Finds observers by name: the ones that ship and everybody else's come in by the same door."""

from __future__ import annotations

import inspect
import logging
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint

from config import dotted_path
from config.dotted_path import NotImportable, import_path, reason_of
from config.errors import PluginUnknown, did_you_mean
from config.project import installed_entries, shipped_entries
from config.settings import Settings
from observers.base import AgentObserver

log = logging.getLogger(__name__)

GROUP = "callboard.observers"
SIGNALS = "signals"


@dataclass
class _Found:
    """What one process knows; thrown away in a forked child."""

    plugins: dict[str, type[AgentObserver]] = field(default_factory=dict)
    """Observers of ``settings.plugins``, by the name they give themselves and by dotted path."""
    broken: dict[str, str] = field(default_factory=dict)
    """Plugins that cannot be used, with a sentence why."""
    entries: dict[str, EntryPoint] = field(default_factory=dict)
    shipped: frozenset[str] = frozenset()
    """Names that are there but turned off."""
    instances: dict[type[AgentObserver], AgentObserver] = field(default_factory=dict)


_lock = threading.RLock()
_found: dict[Settings, _Found] = {}
_prepared = False


def known_observers(settings: Settings) -> dict[str, type[AgentObserver]]:
    """Return every observer that can be named, by name; one that cannot be imported is logged and left out."""
    with _lock:
        found = _look(settings)
        for name in found.entries:
            _loaded(name, found, settings)
        for name, problem in found.broken.items():
            log.warning("observer plugin '%s' cannot be used: %s", name, problem)
        entries = {name: kind for name in found.entries if (kind := _loaded(name, found, settings)) is not None}
        return dict(sorted((found.plugins | entries).items()))


def observers_for(names: Iterable[str], settings: Settings) -> tuple[AgentObserver, ...]:
    """Return this process's one instance of each named observer, in order, each once.

    A name may also be a dotted path, ``package.module:ClassName``. The signals observer is added by
    itself as soon as a function is connected.

    Raises:
        PluginUnknown: no observer has that name, or it cannot be imported; the message says why.
    """
    with _lock:
        found = _look(settings)
        chosen = [_instance(_named(name, found, settings), found, settings) for name in names]
        chosen += [signals for signals in _signals(found, settings) if signals.listens()]
        return tuple({id(observer): observer for observer in chosen}.values())


def forget() -> None:
    """Look again, and make new instances, at the next call."""
    with _lock:
        _found.clear()
        dotted_path.forget()


def load_class(path: str, settings: Settings) -> type[AgentObserver]:
    """Return the observer class at a dotted path.

    Raises:
        PluginUnknown: it cannot be imported, or is no usable observer.
    """
    return _checked(_imported(path, settings), path)


def _look(settings: Settings) -> _Found:
    _prepare()
    found = _found.get(settings)
    if found is None:
        found = _found[settings] = _Found()
        _find_entries(found, settings)
        _find_plugins(found, settings)
    return found


def _find_entries(found: _Found, settings: Settings) -> None:
    """Note what is registered; a name that ships cannot be taken while the shipped ones are on."""
    ours, others = shipped_entries(GROUP), installed_entries(GROUP)
    found.entries = others | ours if settings.builtins else others
    found.shipped = frozenset() if settings.builtins else frozenset(ours)
    if settings.builtins:
        for name in ours.keys() & others.keys():
            log.warning("observer '%s' of %s is not used: the name is taken", name, others[name].value)


def _find_plugins(found: _Found, settings: Settings) -> None:
    """Import the plugins of the settings; those that are no observers are somebody else's business."""
    for path in settings.plugin_paths:
        try:
            thing = _imported(path, settings)
            if inspect.isclass(thing) and issubclass(thing, AgentObserver):
                kind = _checked(thing, path)
                found.plugins[path] = kind
                found.plugins.setdefault(kind.name or kind.__name__, kind)
        except PluginUnknown as error:
            found.broken[path] = str(error)


def _named(name: str, found: _Found, settings: Settings) -> type[AgentObserver]:
    kind = _loaded(name, found, settings) if name in found.entries else found.plugins.get(name)
    if kind is not None:
        return kind
    if name in found.broken:
        raise PluginUnknown(f"observer '{name}' cannot be used: {found.broken[name]}", name=name)
    if ":" in name:
        return load_class(name, settings)
    raise _unknown(name, found)


def _unknown(name: str, found: _Found) -> PluginUnknown:
    known = sorted({*found.entries, *found.plugins})
    if name in found.shipped:
        remedy = "it ships with Callboard, but CALLBOARD_BUILTINS turns the shipped ones off; turn them on"
    else:
        listing = ", ".join(f"'{other}'" for other in known) or "none"
        remedy = f"known observers: {listing}.{did_you_mean(name, known)} Name a known one"
    return PluginUnknown(
        f"observer '{name[:80]}' is not known: {remedy}, or write a dotted path, package.module:ClassName.",
        name=name,
        known=known,
    )


def _loaded(name: str, found: _Found, settings: Settings) -> type[AgentObserver] | None:
    """Return the class of an entry point, or note why it has none."""
    if name in found.broken:
        return None
    try:
        return load_class(found.entries[name].value, settings)
    except PluginUnknown as error:
        found.broken[name] = str(error)
        return None


def _imported(path: str, settings: Settings) -> object:
    """Return what a dotted path names: ``package.module:Name``, or a module imported for its effects."""
    try:
        thing: object = import_path(path, settings)
    except NotImportable as wrong:
        raise PluginUnknown(f"'{path}' {wrong}", name=path) from wrong
    return thing


def _checked(thing: object, path: str) -> type[AgentObserver]:
    if not (inspect.isclass(thing) and issubclass(thing, AgentObserver)):
        raise PluginUnknown(f"'{path}' is no observer; derive a class from observers.base.AgentObserver.", name=path)
    hooks = (name for name in vars(AgentObserver) if name.startswith("on_") or name == "flush")
    waiting = [name for name in hooks if inspect.iscoroutinefunction(getattr(thing, name))]
    if waiting:
        raise PluginUnknown(
            f"'{path}' has `async def {waiting[0]}`, which nobody would await; write a plain `def`: unless "
            "`inline` is set it is called on a thread of its own and may block.",
            name=path,
        )
    return thing


def _instance(kind: type[AgentObserver], found: _Found, settings: Settings) -> AgentObserver:
    observer = found.instances.get(kind)
    if observer is None:
        try:
            observer = kind.from_settings(settings)
        except (Exception, SystemExit) as error:
            raise PluginUnknown(
                f"observer '{kind.name or kind.__name__}' cannot be made ({reason_of(error)}); "
                "see its from_settings().",
                name=kind.__name__,
            ) from error
        found.instances[kind] = observer
    return observer


def _signals(found: _Found, settings: Settings) -> list[AgentObserver]:
    """Return the signals observer, if it is not turned off."""
    kind = _loaded(SIGNALS, found, settings) if SIGNALS in found.entries else None
    return [_instance(kind, found, settings)] if kind is not None else []


def _prepare() -> None:
    global _prepared
    if not _prepared:
        _prepared = True
        os.register_at_fork(after_in_child=_forget_in_child)


def _forget_in_child() -> None:
    """Start anew: threads, locks and files of the parent's instances are not the child's."""
    global _lock
    _lock = threading.RLock()
    _found.clear()
