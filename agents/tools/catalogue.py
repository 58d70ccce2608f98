"""Finds tools by name: the ones that ship and everybody else's come in by the same door.

The door is the entry-point group ``callboard.tools``; beside it a definition may write a dotted path,
``package.module:function``, and the settings may list such paths as plugins.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import EntryPoint
from typing import Any

from agents.tools.schema import build_tool
from agents.tools.tool import MARKS, Effect, Tool
from config import dotted_path
from config.definitions import AgentDefinition
from config.dotted_path import NotImportable, import_path, reason_of
from config.errors import DefinitionInvalid, ToolUnknown, did_you_mean
from config.forks import after_fork
from config.project import installed_entries, shipped_entries
from config.settings import Settings

log = logging.getLogger(__name__)

GROUP = "callboard.tools"
MAX_KEPT = 256
"""Agents whose tools a process keeps built."""

_lock = threading.RLock()


@after_fork
def _renew() -> None:
    global _lock
    _lock = threading.RLock()


_kept: dict[tuple[str, Settings], dict[str, Tool]] = {}
_wrap: Callable[[Tool], Tool] | None = None


def find_tool(path: str, settings: Settings) -> Tool:
    """Return the tool with this short name or dotted path, built.

    Raises:
        ToolUnknown: there is none, or it cannot be imported or described; the message says what to change.
    """
    try:
        return _found(path, settings)
    except ToolUnknown:
        raise
    except Exception as wrong:  # a stranger's object answers to everything in its own way
        problem = f"tool '{path[:200]}' cannot be described ({reason_of(wrong)}); name a plain Python function."
        raise ToolUnknown(problem, name=path) from wrong


def _found(path: str, settings: Settings) -> Tool:
    if ":" in path:
        return _as_tool(_imported(path, settings), path)
    entries = _entries(settings)
    if path in entries:
        return _as_tool(_imported(entries[path].value, settings), path, name=path)
    plugins = _plugins(settings)
    if path in plugins:
        return plugins[path]
    raise _unknown(path, sorted({*entries, *plugins}), settings)


def known_tools(settings: Settings) -> list[str]:
    """Return the short names that can be written in a definition, sorted; nothing but plugins is imported."""
    return sorted({*_entries(settings), *_plugins(settings)})


def tools_of(definition: AgentDefinition, settings: Settings) -> dict[str, Tool]:
    """Return the agent's tools by the name the model uses, with the agent's overrides.

    Built once per process and content of the definition; the dict is shared, leave it as it is.

    Raises:
        ToolUnknown: one of them cannot be found or built.
        DefinitionInvalid: two tools have one name, or an override names none.
    """
    key = (definition.digest, settings)
    with _lock:
        known = _kept.get(key)
    if known is not None:
        return known
    built = _build(definition, settings)  # without the lock: a module may take long to be imported
    with _lock:
        if len(_kept) >= MAX_KEPT:
            _kept.pop(next(iter(_kept)))
        return _kept.setdefault(key, built)


def wrap_tools(wrap: Callable[[Tool], Tool] | None) -> None:
    """Have each tool that is built for an agent go through ``wrap``, before the agent's overrides; None ends that.

    The crash lab writes down there what is called.
    """
    global _wrap
    with _lock:
        _wrap = wrap
        _kept.clear()


def forget() -> None:
    """Look again at the next call."""
    with _lock:
        _kept.clear()
        _entries.cache_clear()
        dotted_path.forget()


def _build(definition: AgentDefinition, settings: Settings) -> dict[str, Tool]:
    tools: dict[str, Tool] = {}
    for position, path in enumerate(definition.tools):
        tool = find_tool(path, settings)
        if tool.name in tools:
            raise DefinitionInvalid(
                definition.file, None, f"tools[{position}]", f"'{path}' is another tool called '{tool.name}'; keep one."
            )
        tools[tool.name] = _wrap(tool) if _wrap is not None else tool
    for name, override in definition.tool_overrides.items():
        if name not in tools:
            listing = ", ".join(tools) or "none"
            problem = f"the agent has no tool '{name[:80]}'.{did_you_mean(name, tools)} Its tools: {listing}."
            raise DefinitionInvalid(definition.file, None, f"tool_overrides.{name}", problem)
        tools[name] = _overridden(tools[name], override.model_dump(exclude_none=True), definition.file)
    return tools


def _overridden(tool: Tool, changes: dict[str, Any], file: str) -> Tool:
    if "effect" in changes:
        changes["effect"] = Effect(changes["effect"])
        if changes["effect"] is Effect.CHECKABLE and tool.check is None:
            problem = "the tool has no `check`, so nobody could ask it; write another effect."
            raise DefinitionInvalid(file, None, f"tool_overrides.{tool.name}.effect", problem)
    return dataclasses.replace(tool, **changes)


def _as_tool(thing: Any, path: str, *, name: str | None = None) -> Tool:
    if isinstance(thing, Tool):
        return thing
    if not callable(thing) or isinstance(thing, type):
        raise ToolUnknown(f"'{path}' is no function; name a function with a docstring and typed arguments.", name=path)
    marks = getattr(thing, MARKS, None)
    return build_tool(thing, name=(marks.name if marks else None) or name)


@lru_cache(maxsize=8)
def _entries(settings: Settings) -> dict[str, EntryPoint]:
    """Return what is registered; a name that ships cannot be taken while the shipped tools are on."""
    return installed_entries(GROUP) | (shipped_entries(GROUP) if settings.builtins else {})


def _plugins(settings: Settings) -> dict[str, Tool]:
    """Return the plugins that are tools. A broken plugin is left out and logged, so that it hides no other tool."""
    found: dict[str, Tool] = {}
    for path in settings.plugin_paths:
        try:
            thing = _imported(path, settings) if ":" in path else None
            if isinstance(thing, Tool) or (callable(thing) and not isinstance(thing, type)):
                tool = _as_tool(thing, path)
                found[tool.name] = tool
        except Exception as wrong:  # the doctor names it as well
            log.warning("plugin '%s' cannot be used: %s", path, reason_of(wrong))
    return found


def _imported(path: str, settings: Settings) -> Any:
    try:
        return import_path(path, settings)
    except NotImportable as wrong:
        raise ToolUnknown(f"tool '{path}' {wrong}", name=path) from wrong


def _unknown(path: str, known: list[str], settings: Settings) -> ToolUnknown:
    if not settings.builtins and path in _entries(settings.model_copy(update={"builtins": True})):
        remedy = "it ships with Callboard, but CALLBOARD_BUILTINS turns the shipped tools off; turn them on"
    else:
        listing = ", ".join(f"'{name}'" for name in known) or "none"
        remedy = f"known tools: {listing}.{did_you_mean(path, known)} Name a known one"
    return ToolUnknown(
        f"tool '{path[:80]}' is not known: {remedy}, or write a dotted path, package.module:function.",
        name=path,
        known=known,
    )
