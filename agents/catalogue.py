"""The tools that definitions name, and each agent's tools as its definition changes them.

A tool is a capability that a YAML file declares (``agents/capabilities``), an entry point of the group
``callboard.tools``, a plugin of the settings, or a dotted path, ``package.module:function``
(``config/definitions/plugins.py``); ``agent:<id>`` is another agent, ``celery:<task>`` a task of a Celery application,
``mcp:<server>/<tool>`` a tool of an MCP server, and ``mcp:<server>`` stands for all of them.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agents.capabilities import folder
from agents.capabilities.folder import get_capability
from agents.delegation.agent_tool import PREFIX as AGENT
from agents.delegation.agent_tool import WORKFLOW, agent_tool, versions
from agents.governance.guardrails.prompt_guard import guard_function
from agents.tools import mcp
from agents.tools.mcp.tool_names import Accepted, Origin, accepted_by_persons, first_seen, names_of
from agents.tools.schema import build_tool
from agents.tools.tool import FOR_AGENT, Tool
from config.definitions import plugins
from config.definitions.agent import AgentDefinition
from config.definitions.celery_tasks import PREFIX as CELERY
from config.definitions.dotted_path import NotImportable, reason_of, require_own
from config.definitions.errors import DefinitionInvalid, DefinitionUnreadable, ToolUnknown
from config.definitions.mcp.names import identity_of, prefixed_name, sent_name
from config.definitions.plugins import PluginLoader
from config.definitions.tool_override import ToolOverride
from config.effects import Effect
from config.forks import after_fork
from config.settings import Settings
from config.text.names import did_you_mean

READING = ("resources", "prompts")
"""Fields of a definition that name what is read from MCP servers."""
HOSTS_NOT_KEPT = (
    "the tool's connections are not made by Callboard, so a list of hosts could not be enforced; leave it out. "
    "It is for http_get, http_request and capabilities with the runner `http`."
)

_lock = threading.RLock()


@after_fork
def _renew() -> None:
    global _lock
    _lock = threading.RLock()


_kept: dict[tuple[str, Settings, Accepted, tuple[str, ...]], dict[str, Tool]] = {}
_wrap: Callable[[Tool], Tool] | None = None


def find_tool(path: str, settings: Settings) -> Tool:
    """Return the tool with this short name or dotted path, built.

    Raises:
        ToolUnknown: there is none, or it cannot be imported or described; the message says what to change.
        DefinitionUnreadable: its file or module cannot be read now.
    """
    try:
        if path.startswith(CELERY):
            return _celery_tool(path, settings)
        if path.startswith((AGENT, WORKFLOW)):
            return agent_tool(path, settings)
        return _declared(path, settings) or TOOLS.find(path, settings)
    except ToolUnknown:
        raise
    except Exception as error:  # a foreign object may raise anything at any attribute
        unreadable = DefinitionUnreadable.behind(error, Path(path[:200]))
        if unreadable is not None:
            raise unreadable from error
        problem = f"tool '{path[:200]}' cannot be described ({reason_of(error)}); name a plain Python function."
        raise ToolUnknown(problem, name=path) from error


def find_tools(path: str, settings: Settings) -> list[Tool]:
    """Return the tools that an agent's file names with one line: of an MCP server all, otherwise one.

    Raises:
        ToolUnknown: as ``find_tool``.
    """
    return _mcp_tools(path, settings) if path.startswith(mcp.PREFIX) else [find_tool(path, settings)]


def _mcp_tools(path: str, settings: Settings) -> list[Tool]:
    from agents.tools.mcp.tool_builder import mcp_tools  # takes half a second, and most processes do not need it

    return mcp_tools(path, settings)


def find_reading_tools(field: str, path: str, settings: Settings) -> list[Tool]:
    """Return the tools that a line of an agent's ``resources`` or ``prompts`` needs.

    Raises:
        ToolUnknown: there is no such server.
    """
    return _reading_tools(field, (path,), settings)


def _reading_tools(field: str, paths: Sequence[str], settings: Settings) -> list[Tool]:
    if not paths:
        return []
    from agents.tools.mcp.reading_tools import reading_tools  # as above

    return reading_tools(field, paths, settings)


def _celery_tool(path: str, settings: Settings) -> Tool:
    from agents.tools.celery_tasks import celery_tool  # many modules, which most processes do not need

    return celery_tool(path, settings)


def _declared(name: str, settings: Settings) -> Tool | None:
    """Return the capability with this id; None where no file declares one.

    Raises:
        ToolUnknown: it cannot be used, or its id is a registered tool's name.
    """
    tool = get_capability(name, settings)
    registered = TOOLS.entries(settings).get(name)
    if tool is not None and registered is not None:
        problem = f"'{name}' is a capability's id and also the name of the tool {registered.value}; rename the file."
        raise ToolUnknown(problem, name=name)
    return tool


def tools_of(
    definition: AgentDefinition, settings: Settings, tools_by_path: Mapping[str, Tool] = MappingProxyType({})
) -> dict[str, Tool]:
    """Return the agent's tools by the name the model uses, with the agent's overrides; ``given`` ones first.

    Built once per process, content of the definition, and definitions of MCP servers' tools that persons accepted; the
    dict is shared, leave it as it is.

    Raises:
        ToolUnknown: one of them cannot be found or built.
        DefinitionInvalid: two tools have one name, or an override names none.
    """
    if tools_by_path:
        return _build(definition, settings, tools_by_path)
    others = versions(definition.tools, settings)
    key = (definition.digest, settings, accepted_by_persons(definition.tools), others)
    with _lock:
        tools = _kept.get(key)
    if tools is not None:
        return tools
    built = _build(definition, settings, tools_by_path)  # without the lock: a module may take long to be imported
    with _lock:
        while len(_kept) >= settings.cached_definitions:
            _kept.pop(next(iter(_kept)))
        return _kept.setdefault(key, built)


def wrap_tools(wrap: Callable[[Tool], Tool] | None) -> None:
    """Apply ``wrap`` to each tool built for an agent, before the agent's overrides; None ends that.

    The crash lab records calls with it.
    """
    global _wrap
    with _lock:
        _wrap = wrap
        _kept.clear()


def forget() -> None:
    """Clear the cache of built tools."""
    with _lock:
        _kept.clear()
        plugins.forget()
        folder.forget()


def _build(definition: AgentDefinition, settings: Settings, tools_by_path: Mapping[str, Tool]) -> dict[str, Tool]:
    guard_function(definition, settings)  # where it cannot be imported, the agent is broken like without a tool
    tools: dict[str, Tool] = {}
    for location, path, tool in _named(definition, settings, tools_by_path):
        for_agent = getattr(tool.function, FOR_AGENT, None)
        tool = tool if for_agent is None else for_agent(tool, definition, settings)
        if tool.name in tools:
            raise DefinitionInvalid(
                definition.file, None, location, f"'{path}' is another tool called '{tool.name}'; keep one."
            )
        tool = dataclasses.replace(_wrap(tool) if _wrap is not None else tool, line=path)
        tools[tool.name] = tool
    seen = first_seen(definition.tools, settings) if definition.tool_overrides else {}
    for key, override in definition.tool_overrides.items():
        try:
            name = _overridden(key, tools, seen)
        except ValueError as error:
            raise DefinitionInvalid(definition.file, None, f"tool_overrides.{key}", str(error)) from error
        if name is None:
            listing = ", ".join(tools) or "none"
            problem = f"the agent has no tool '{key[:80]}'.{did_you_mean(key, tools)} Its tools: {listing}."
            raise DefinitionInvalid(definition.file, None, f"tool_overrides.{key}", problem)
        changes = override.model_dump(exclude_none=True)
        if "effect" in changes and changes["effect"].policy.needs_check and tools[name].check is None:
            problem = "the tool has no `check`, so its outcome could not be checked; write another effect."
            raise DefinitionInvalid(definition.file, None, f"tool_overrides.{key}.effect", problem)
        if changes.get("effect") is Effect.UNSAFE and tools[name].attempts > 1:
            problem = "the capability's `retry` would repeat an unsafe call; write another effect."
            raise DefinitionInvalid(definition.file, None, f"tool_overrides.{key}.effect", problem)
        if "hosts" in changes and not tools[name].keeps_hosts:
            raise DefinitionInvalid(definition.file, None, f"tool_overrides.{key}.hosts", HOSTS_NOT_KEPT)
        refusal = _retries_refusal(tools[name], override)
        if refusal is not None:
            raise DefinitionInvalid(definition.file, None, f"tool_overrides.{key}.retries", refusal)
        tools[name] = dataclasses.replace(tools[name], **changes)
        # An MCP server may change the arguments of its tools at any time.
        if "title" in changes and tools[name].mcp is None and (wrong := tools[name].title_problem):
            raise DefinitionInvalid(definition.file, None, f"tool_overrides.{key}.title", f"{wrong}.")
    return tools


def _retries_refusal(tool: Tool, override: ToolOverride) -> str | None:
    """Return why calls of a tool cannot be repeated as often as an agent wants; None where they can be."""
    if not override.retries:
        return None
    if not (override.effect or tool.effect).policy.may_repeat:
        return "an unsafe call is never repeated; write 0, or another effect where it is true."
    if tool.attempts > 1:
        return "the capability's `retry` repeats its calls already; keep one of both."
    if tool.child is not None:
        return "a child run repeats its own calls; leave it out."
    return "the Celery application repeats its own tasks; leave it out." if tool.task is not None else None


def _overridden(key: str, tools: Mapping[str, Tool], seen: Mapping[Origin, int]) -> str | None:
    """Return the name of the tool that a line of ``tool_overrides`` is about; None where there is none.

    The line has the tool's name or its identity; or, of an MCP server's tool, its name there if no other tool has the
    name that follows from it, or that with the server's name before it. Of several MCP servers' tools the one is meant
    that was ``seen`` first, also while it is away: so no server takes an override by what it lists later.

    Raises:
        ValueError: several are meant, none of them seen before the others.
    """
    if key in tools and tools[key].mcp is None:
        return key
    names = {tool.mcp: tool.name for tool in tools.values() if tool.mcp is not None}
    meant = {
        tool_origin
        for tool_origin, name in names.items()
        if key == name or (key == tool_origin[1] and name == sent_name(key))
    }
    for origin in {*names, *seen}:
        identity = identity_of(*origin)
        if key in (identity, prefixed_name(identity)):
            meant.add(origin)
    if not meant:
        return None
    times = [seen.get(tool_origin, inf) for tool_origin in meant]
    first = [tool_origin for tool_origin in meant if seen.get(tool_origin, inf) == min(times)]
    if len(first) > 1:
        listing = ", ".join(sorted(identity_of(*tool_origin) for tool_origin in first))
        raise ValueError(f"several tools are called '{key[:80]}': {listing}. Write the one that is meant.")
    return names.get(first[0])


def _named(
    definition: AgentDefinition, settings: Settings, tools_by_path: Mapping[str, Tool]
) -> Iterator[tuple[str, str, Tool]]:
    """Yield each tool with its place and line, those of MCP servers under the names that ``names_of`` gives them.

    So no server takes the name of a tool that is not its own, and none makes an agent unloadable by its tools' names.
    """
    entries = [
        (f"tools[{position}]", path, tool)
        for position, path in enumerate(definition.tools)
        for tool in ([tools_by_path[path]] if path in tools_by_path else find_tools(path, settings))
    ]
    for field in READING:
        entries += [(field, field, tool) for tool in _reading_tools(field, getattr(definition, field), settings)]
    origins = [(tool.name, None if path in tools_by_path else tool.mcp) for _, path, tool in entries]
    names = names_of(origins, first_seen(definition.tools, settings))
    for name, (location, path, tool) in zip(names, entries, strict=True):
        yield location, path, tool if name == tool.name else dataclasses.replace(tool, name=name)


def _as_tool(thing: Any, path: str, name: str | None, settings: Settings) -> Tool:
    """Return the object of a dotted path as a tool, called ``name`` unless it has a name of its own."""
    if not _accepts(thing):
        raise ToolUnknown(f"'{path}' is no function; name a function with a docstring and typed arguments.", name=path)
    try:
        require_own(thing.function if isinstance(thing, Tool) else thing, path, settings)
    except NotImportable as error:
        raise ToolUnknown(f"tool '{path}' {error}", name=path) from error
    return as_tool(thing, name)


def as_tool(thing: Tool | Callable[..., Any], registered: str | None = None) -> Tool:
    """Return a function as a tool, ``registered`` under a name or none; return a tool unchanged."""
    return thing if isinstance(thing, Tool) else build_tool(thing, registered)


def _accepts(thing: Any) -> bool:
    return isinstance(thing, Tool) or (callable(thing) and not isinstance(thing, type))


TOOLS: PluginLoader[Tool] = PluginLoader(
    noun="tool",
    attribute="function",
    error=ToolUnknown,
    accepts=_accepts,
    build=_as_tool,
    name_of=lambda tool: tool.name,
    others=folder.declared,
)
