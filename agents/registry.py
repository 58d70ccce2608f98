"""The agents that are configured: one YAML file each, in one or more folders.

Web processes use it, so it imports neither litellm nor a tool.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agents.errors import AgentUnknown
from bus.identity.access import may_see_machines, may_start, sees_agent
from bus.identity.errors import agent_forbidden
from config.definitions.agent import AGENT_ID, AgentDefinition, load_definition
from config.definitions.errors import DefinitionInvalid, DefinitionUnreadable
from config.definitions.yaml_lines import YAML_SUFFIXES, yaml_files
from config.identity.principal import LOCAL, Principal
from config.watched_files import FileStamp, stamp_of


class AgentRegistry:
    """Finds agents by id; an edited file is used from the next call on. Safe for any thread."""

    def __init__(self, folders: Sequence[Path], local: Principal = LOCAL) -> None:
        self._folders = tuple(folders)
        self._local = local
        self._read: dict[str, tuple[FileStamp, AgentDefinition | DefinitionInvalid]] = {}

    def ids(self) -> list[str]:
        """Return the ids of all files, sorted, including invalid ones."""
        return sorted(path.stem for path in self._files() if AGENT_ID.fullmatch(path.stem))

    def get(self, agent_id: str) -> AgentDefinition:
        """Return the agent as its file defines it now.

        Raises:
            AgentUnknown: no folder has it; suggests the most similar one.
            DefinitionInvalid: its file cannot be used.
            DefinitionUnreadable: the system does not let this process read it now.
        """
        path = self._find(agent_id)
        if path is None:
            raise self.unknown(agent_id)
        definition = self._load(path)
        if isinstance(definition, DefinitionInvalid):
            # A new exception each time: a cached one would collect the tracebacks of all callers.
            raise definition.with_traceback(None)
        return definition

    def usable(self) -> list[AgentDefinition]:
        """Return the agents whose files can be used, sorted by id."""
        return [definition for definition in self.all() if not isinstance(definition, DefinitionInvalid)]

    def seen_by(self, principal: Principal) -> list[AgentDefinition]:
        """Return the usable agents that exist for a principal, sorted by id."""
        return [definition for definition in self.usable() if sees_agent(principal, definition)]

    def get_for(self, principal: Principal, agent_id: str) -> AgentDefinition:
        """Return an agent that exists for a principal.

        Raises:
            AgentUnknown: there is none.
            DefinitionInvalid: its file cannot be used, and the principal may know; for others it is unknown.
        """
        if principal.agents is not None and agent_id not in principal.agents:
            raise self.unknown(agent_id)
        try:
            definition = self.get(agent_id)
        except DefinitionUnreadable as error:
            last = self._last_read(agent_id)
            if last is None or sees_agent(principal, last):
                raise
            raise self.unknown(agent_id) from error
        except DefinitionInvalid as error:
            if self.shows_problems(principal):
                raise
            raise self.unknown(agent_id) from error
        if not sees_agent(principal, definition):
            raise self.unknown(agent_id)
        return definition

    def shows_problems(self, principal: Principal) -> bool:
        """Return whether a principal may see what is wrong with files, which name this machine's folders.

        A file that cannot be read does not say either which tenants its agent is for.
        """
        return principal == self._local or may_see_machines(principal)

    def startable(self, principal: Principal, agent_id: str) -> AgentDefinition:
        """Return an agent that a principal may start.

        Raises:
            AgentUnknown, DefinitionInvalid: see ``get_for``.
            AGENT_FORBIDDEN: the agent's definition, or the credential, does not let the principal start it.
        """
        definition = self.get_for(principal, agent_id)
        if not may_start(principal, definition):
            raise agent_forbidden(principal, agent_id)
        return definition

    def unknown(self, agent_id: str) -> AgentUnknown:
        """Return the error that says how to add an agent."""
        folder = self._folders[0] if self._folders else Path("config/agents")
        here = Path.cwd()
        display_folder = folder.relative_to(here) if folder.is_relative_to(here) else folder
        return AgentUnknown(agent_id, self.ids(), folder=str(display_folder))

    def all(self) -> list[AgentDefinition | DefinitionInvalid]:
        """Return every agent, sorted by id, with the error in place of an invalid one."""
        return [self._load(path) for path in sorted(self._files(), key=lambda path: path.stem)]

    def _files(self) -> list[Path]:
        first: dict[str, Path] = {}
        for path in yaml_files(self._folders):
            first.setdefault(path.stem, path)
        return list(first.values())

    def _find(self, agent_id: str) -> Path | None:
        if not AGENT_ID.fullmatch(agent_id) or agent_id.startswith("."):
            return None
        paths = (folder / f"{agent_id}{ending}" for folder in self._folders for ending in YAML_SUFFIXES)
        try:
            return next((path for path in paths if path.exists()), None)
        except OSError as error:
            raise DefinitionUnreadable.of(self._folders[0], error) from error

    def _last_read(self, agent_id: str) -> AgentDefinition | None:
        last = self._read.get(agent_id)
        return last[1] if last is not None and isinstance(last[1], AgentDefinition) else None

    def _load(self, path: Path) -> AgentDefinition | DefinitionInvalid:
        try:
            stamp = stamp_of(path)
        except OSError as error:
            return DefinitionUnreadable.of(path, error)
        cache_entry = self._read.get(path.stem)
        if cache_entry is not None and cache_entry[0] == stamp:
            return cache_entry[1]
        definition: AgentDefinition | DefinitionInvalid
        try:
            definition = load_definition(path)
        except DefinitionUnreadable as error:
            return error
        except DefinitionInvalid as error:
            definition = error
        self._read[path.stem] = (stamp, definition)
        return definition
