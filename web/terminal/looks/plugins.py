"""Plugins: each path of CALLBOARD_PLUGINS leads to an observer, a tool, or a module that can be imported."""

from __future__ import annotations

import inspect
from types import ModuleType

from agents.tools.catalogue import find_tool
from config.dotted_path import NotImportable, import_path
from config.errors import CallboardError, PluginUnknown
from config.settings import Settings
from observers.discovery import load_class
from web.terminal.looks.finding import Found


def look_at_plugins(settings: Settings) -> Found:
    """Yield each that cannot be used; the agents' look tells only those an agent names."""
    broken = 0
    for path in settings.plugin_paths:
        try:
            require_plugin(path, settings)
        except CallboardError as wrong:
            broken += 1
            yield "fail", f"CALLBOARD_PLUGINS: {wrong} [{wrong.code}]"
    if settings.plugin_paths and not broken:
        yield "ok", f"{len(settings.plugin_paths)} can be used"


def require_plugin(path: str, settings: Settings) -> None:
    """The path leads to something that somebody uses.

    Raises:
        PluginUnknown: it cannot be imported, or is a class that observes nothing.
        ToolUnknown: it is no function that a model could call.
    """
    try:
        thing = import_path(path, settings)
    except NotImportable as wrong:
        raise PluginUnknown(f"'{path}' {wrong}", name=path) from wrong
    if inspect.isclass(thing):
        load_class(path, settings)
    elif not isinstance(thing, ModuleType):
        find_tool(path, settings)
