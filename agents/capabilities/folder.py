"""The capabilities that are declared in YAML: one file each, in one or more folders, read once in a process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from agents.tools.tool import Tool
from config.definitions.errors import DefinitionInvalid, DefinitionUnreadable, ToolUnknown
from config.definitions.yaml_lines import yaml_files
from config.settings import Settings

if TYPE_CHECKING:
    from config.definitions.capability import CapabilityDefinition

    Declared = Mapping[str, CapabilityDefinition | DefinitionInvalid]


def declared(settings: Settings) -> Declared:
    """Return the capabilities of the settings' folders by id, with the error in place of an invalid one."""
    capabilities = _read(tuple(settings.capability_folders))
    if any(isinstance(capability, DefinitionUnreadable) for capability in capabilities.values()):
        forget()
    return capabilities


def get_capability(capability_id: str, settings: Settings) -> Tool | None:
    """Return the tool of a capability; None where no file has this id.

    Raises:
        ToolUnknown: it is invalid, retired, or names something that is not there.
        DefinitionUnreadable: the system does not let this process read its file now.
    """
    definition = declared(settings).get(capability_id)
    if definition is None:
        return None
    if isinstance(definition, DefinitionUnreadable):
        raise definition.with_traceback(None)
    if isinstance(definition, DefinitionInvalid):
        raise ToolUnknown(f"capability '{capability_id}' cannot be used: {definition}", name=capability_id) from None
    if definition.retired is not None:
        problem = f"capability '{capability_id}' is retired: {definition.retired.rstrip('.')}."
        raise ToolUnknown(f"{problem} Name another one in the agent's `tools:`.", name=capability_id)
    from agents.capabilities.build import capability_tool  # with the runners, which most processes do not need

    return capability_tool(definition, settings)


def create_capability_registry(settings: Settings) -> Mapping[str, Tool]:
    """Return the tools of all capabilities that can be called, by id; what is wrong with another, ``get_capability``
    says. The name is that of the first design of blueprints.
    """
    tools: dict[str, Tool] = {}
    for capability_id in declared(settings):
        with suppress(ToolUnknown, DefinitionUnreadable):
            tool = get_capability(capability_id, settings)
            assert tool is not None, "the folder has it"
            tools[capability_id] = tool
    return tools


def forget() -> None:
    """Clear the cache, so that the next call reads the files again."""
    _read.cache_clear()


@lru_cache(maxsize=8)
def _read(folders: Sequence[Path]) -> Declared:
    definitions: dict[str, CapabilityDefinition | DefinitionInvalid] = {}
    first: dict[str, Path] = {}
    for path in yaml_files(folders):
        if path.stem in first:
            problem = f"has the id '{path.stem}', as {first[path.stem]} has; rename one of them."
            definitions[path.stem] = DefinitionInvalid(str(path), None, None, problem)
            continue
        first[path.stem] = path
        from config.definitions.capability import load_capability

        try:
            definitions[path.stem] = load_capability(path)
        except DefinitionInvalid as error:
            definitions[path.stem] = error.with_traceback(None)
    return definitions
