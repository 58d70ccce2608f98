"""Finds the observers that definitions name; a process has one instance of each class.

An observer is an entry point of the group ``callboard.observers``, a plugin of the settings, or a dotted path,
``package.module:ClassName`` (``config/definitions/plugins.py``).
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from config.definitions import plugins
from config.definitions.dotted_path import reason_of
from config.definitions.errors import PluginUnknown
from config.definitions.plugins import PluginLoader
from config.errors import CallboardError
from config.forks import after_fork
from config.settings import Settings
from observers.base import HOOKS, AgentObserver, LiveObserver, LogObserver

if TYPE_CHECKING:
    from bus.journal.owner import HotLog

SIGNALS = "signals"

_lock = threading.RLock()
_known: dict[Settings, dict[str | type[AgentObserver], AgentObserver]] = {}
"""The instances of this process, by class and by each name that was asked for."""


@after_fork
def _renew() -> None:
    """Forget the instances in a forked child: their threads, locks and files are the parent's."""
    global _lock
    _lock = threading.RLock()
    _known.clear()


def observers_for(names: Iterable[str], settings: Settings, hot_log: HotLog | None = None) -> tuple[AgentObserver, ...]:
    """Return this process's one instance of each named observer, as ``resolve_observers`` does.

    Raises:
        PluginUnknown: no observer has that name, or it cannot be imported; the message has the reason.
    """
    observers, missing = resolve_observers(names, settings, hot_log)
    if missing is not None:
        raise missing
    return observers


def resolve_observers(
    names: Iterable[str], settings: Settings, hot_log: HotLog | None = None
) -> tuple[tuple[AgentObserver, ...], PluginUnknown | None]:
    """Return a run's observers in order, each once; where one is not installed, the others, and its error.

    Those that carry events to viewers are made with ``hot_log``; without one they are left out.

    The signals observer is added automatically once a function is connected. The first call imports the plugins of the
    settings, so that modules with signal receivers are connected.
    """
    with _lock:
        instances = _known.get(settings)
        if instances is None:
            OBSERVERS.listed(settings)
            instances = _known[settings] = {}
        chosen: list[AgentObserver] = []
        missing: PluginUnknown | None = None
        for name in names:
            try:
                observer = _instance(name, instances, settings, hot_log)
                chosen += [observer] if observer is not None else []
            except PluginUnknown as error:
                missing = missing or error
        if SIGNALS in OBSERVERS.entries(settings):
            signals = _instance(SIGNALS, instances, settings, hot_log)
            chosen += [signals] if signals is not None and signals.listens() else []
        return tuple({id(observer): observer for observer in chosen}.values()), missing


def forget() -> None:
    """Clear the caches, so that the next call creates new instances."""
    with _lock:
        _known.clear()
        plugins.forget()


def _instance(
    name: str, instances: dict[str | type[AgentObserver], AgentObserver], settings: Settings, hot_log: HotLog | None
) -> AgentObserver | None:
    kind = type(instances[name]) if name in instances else OBSERVERS.find(name, settings)
    if issubclass(kind, LogObserver):
        problem = f"observer '{name}' reads the log, so it is none for definitions; start `./callboard observe {name}`."
        raise PluginUnknown(problem, name=name)
    if issubclass(kind, LiveObserver):
        if hot_log is None:
            return None
        observer = instances.get(kind)
        if not isinstance(observer, LiveObserver) or observer.hot_log is not hot_log:
            instances[kind] = kind(hot_log)
    elif kind not in instances:
        instances[kind] = new_instance(kind, partial(kind.from_settings, settings))
    instances[name] = instances[kind]
    return instances[name]


def new_instance(kind: type[AgentObserver], create: Callable[[], AgentObserver]) -> AgentObserver:
    """Return a new instance of an observer, which ``create`` returns.

    Raises:
        PluginUnknown: it cannot be made; the message has the reason.
    """
    try:
        return create()
    except (Exception, SystemExit) as error:
        problem = f"observer '{_name_of(kind)}' cannot be made ({reason_of(error)}); see its from_settings()."
        problem = f"observer '{_name_of(kind)}': {error}" if isinstance(error, CallboardError) else problem
        raise PluginUnknown(problem, name=kind.__name__) from error


def _accepts(thing: Any) -> bool:
    return inspect.isclass(thing) and issubclass(thing, AgentObserver)


def _as_observer(thing: Any, path: str, _name: str | None, _settings: Settings) -> type[AgentObserver]:
    if not _accepts(thing):
        raise PluginUnknown(f"'{path}' is no observer; derive a class from observers.base.AgentObserver.", name=path)
    kind: type[AgentObserver] = thing
    waiting = [
        name
        for name in ("on_response", *HOOKS, "on_audit_head", "flush")
        if inspect.iscoroutinefunction(getattr(kind, name))
    ]
    if waiting:
        raise PluginUnknown(
            f"'{path}' has `async def {waiting[0]}`, which is never awaited; write a plain `def`: unless "
            "`inline` is set it is called on a thread of its own and may block.",
            name=path,
        )
    return kind


def _name_of(kind: type[AgentObserver]) -> str:
    return kind.name or kind.__name__


OBSERVERS: PluginLoader[type[AgentObserver]] = PluginLoader(
    noun="observer", attribute="ClassName", error=PluginUnknown, accepts=_accepts, build=_as_observer, name_of=_name_of
)
