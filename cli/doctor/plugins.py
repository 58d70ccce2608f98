"""Check of CALLBOARD_PLUGINS: each path names an observer, a tool, or a module that can be imported."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType

from agents.tools.catalogue import find_tool
from cli.doctor.finding import Verdicts, fail, ok
from config.definitions.dotted_path import NotImportable, import_path
from config.definitions.errors import PluginUnknown
from config.errors import CallboardError
from config.settings import Settings
from observers.discovery import OBSERVERS


def check_plugins(settings: Settings) -> Verdicts:
    """Yield each plugin that cannot be used; ``check_agents`` sees only those that an agent names."""
    broken = list(broken_plugins(settings))
    yield from map(fail, broken)
    if settings.plugin_paths and not broken:
        yield ok(f"{len(settings.plugin_paths)} can be used")


def broken_plugins(settings: Settings) -> Iterator[str]:
    """Yield an error with its remedy for each path that cannot be used."""
    for path in settings.plugin_paths:
        try:
            thing = import_path(path, settings)
            if inspect.isclass(thing):
                OBSERVERS.find(path, settings)
            elif not isinstance(thing, ModuleType):
                find_tool(path, settings)
        except NotImportable as error:
            yield f"CALLBOARD_PLUGINS: '{path}' {error} [{PluginUnknown.code}]"
        except CallboardError as error:
            yield f"CALLBOARD_PLUGINS: {error} [{error.code}]"
