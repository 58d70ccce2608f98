"""What is wrong with the agents' files, as far as a process can say that imports no tool and holds no key."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from agents.catalogue import TOOLS
from agents.registry import AgentRegistry
from bus.journal.stores import Tools
from config.database.engine import Database
from config.definitions.agent import AgentDefinition
from config.definitions.dotted_path import NotImportable, require_allowed
from config.definitions.errors import DefinitionInvalid, ToolUnknown
from config.definitions.loading import BEGINNING, is_of_workflow
from config.definitions.yaml_lines import read_yaml
from config.errors import CallboardError
from config.settings import Settings
from web.doctor import Verdicts, fail, ok, warn
from web.doctor.database import reading_database

_ELSEWHERE = ("celery:", "mcp:", "agent:", "workflow:")
"""How the tools are named of which no module is imported: operators' files say what may be used of them."""


class BrokenFile(NamedTuple):
    """A definition that cannot be used."""

    id: str
    code: str
    detail: str
    """The file, the line, what is wrong, and the remedy."""


def broken_files(registry: AgentRegistry, *, of_workflows: bool) -> list[BrokenFile]:
    """Return the files of agents, or those of workflows, that cannot be read as such."""
    return [
        BrokenFile(Path(str(error.facts["file"])).stem, error.code, str(error))
        for error in registry.all()
        if isinstance(error, DefinitionInvalid) and is_of_workflow(error) == of_workflows
    ]


def refused_tool(agent: AgentDefinition, settings: Settings, database: Database) -> BrokenFile | None:
    """Return the first tool that no process can have: its module is not allowed, or neither this one nor a worker
    knows its name. None where nothing is known against the agent; no tool is imported.
    """
    for position, path in enumerate(agent.tools):
        problem = _problem_of(path, settings)
        if problem is not None and not _is_loaded(path, settings, database):
            return BrokenFile(agent.id, ToolUnknown.code, f"{_place(agent, position)}: {problem}")
    return None


def _problem_of(path: str, settings: Settings) -> str | None:
    if path.startswith(_ELSEWHERE):
        return None
    if ":" not in path:
        unknown = TOOLS.unknown(path, settings)
        return None if unknown is None else str(unknown)
    try:
        require_allowed(path, settings)
    except NotImportable as error:
        return f"tool '{path}' {error}"
    return None


def _is_loaded(name: str, settings: Settings, database: Database) -> bool:
    """Return whether a worker has it: of a package or a capability that only workers have."""
    if ":" in name:
        return False
    agents = AgentRegistry(settings.agent_folders).ids()
    return any(tool["name"] == name for tool in Tools(database).listed(agents))


def _place(agent: AgentDefinition, position: int) -> str:
    with suppress(CallboardError):  # edited since it was read
        line = read_yaml(Path(agent.file), BEGINNING).line_of(("tools", position))
        return f"{agent.file}:{line}: tools[{position}]"
    return agent.file


@reading_database
def check_files(settings: Settings, database: Database) -> Verdicts:
    """Yield the files of agents and workflows that cannot be used; the terminal's doctor loads their tools too."""
    registry = AgentRegistry(settings.agent_folders)
    broken = [*broken_files(registry, of_workflows=False), *broken_files(registry, of_workflows=True)]
    agents = [agent for agent in registry.all() if isinstance(agent, AgentDefinition)]
    broken += filter(None, (refused_tool(agent, settings, database) for agent in agents if not agent.is_workflow))
    yield from (fail(problem.detail) for problem in broken)
    yield from hidden_files(registry)
    if not broken:
        yield ok(f"{len(agents)} files can be read; `./callboard doctor` loads their tools too")


def hidden_files(registry: AgentRegistry, ids: Collection[str] = ()) -> Verdicts:
    """Yield the files, of all agents or of some, that have an id of which a folder that is read before has one."""
    for first, hidden in registry.hidden():
        if not ids or first.stem in ids:
            yield warn(f"{first} hides {hidden}, which has the same id; rename one of them, or remove it")
