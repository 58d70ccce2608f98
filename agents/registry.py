"""The agents that are configured: one YAML file each, in one or more folders.

Web processes use it, so it imports neither litellm nor a tool.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from agents.errors import AgentUnknown
from agents.models.auto import resolve_model
from bus.identity.access import may_promote, may_see_machines, may_start, require, sees_agent
from bus.identity.errors import agent_forbidden, promotion_forbidden
from bus.journal.clients import RunVersion
from bus.journal.errors import UPGRADE_REFUSED
from config.definitions.agent import AGENT_ID, AgentDefinition
from config.definitions.behaviour import changes
from config.definitions.errors import DefinitionInvalid, DefinitionUnreadable
from config.definitions.loading import load_definition, pinned_definition
from config.definitions.yaml_lines import YAML_SUFFIXES, yaml_files
from config.errors import CallboardError
from config.identity.principal import LOCAL, Principal, Role, Verb
from config.watched_files import FileStamp, stamp_of

if TYPE_CHECKING:
    from bus.journal import Journal
    from bus.journal.stores import AgentVersions

log = logging.getLogger(__name__)

MAX_VERSIONS = 500
"""Versions of agents that are kept as they were read; after that all are read again."""


class AgentRegistry:
    """Finds agents by id; an edited file is used from the next call on. Safe for any thread."""

    def __init__(
        self, folders: Sequence[Path], local: Principal = LOCAL, versions: AgentVersions | None = None
    ) -> None:
        """Without ``versions`` an agent is what its file says: no alias counts, and a broken file serves nothing."""
        self._folders = tuple(folders)
        self._local = local
        self._versions = versions
        self._read: dict[str, tuple[FileStamp, AgentDefinition | DefinitionInvalid]] = {}
        self._by_digest: dict[tuple[str, str], AgentDefinition] = {}
        self._reported: dict[str, str] = {}
        self._looked_at: dict[str, FileStamp] = {}

    def ids(self) -> list[str]:
        """Return the ids of all files, sorted, including invalid ones."""
        return sorted(path.stem for path in self._files() if AGENT_ID.fullmatch(path.stem))

    def get(self, agent_id: str, thread: str = "") -> AgentDefinition:
        """Return the version of the agent that serves: what its file says now, or what an alias stands for.

        ``thread`` names a thread among all of the deployment, whose runs may get the canary; none: no canary. Of a file
        that cannot be used the last version serves, with the ``problem``.

        Raises:
            AgentUnknown: no folder has it; suggests the most similar one.
            DefinitionInvalid: its file cannot be used, and no version of it served; or an alias's version cannot.
            DefinitionUnreadable: the system does not let this process read it now.
        """
        path = self._find(agent_id)
        if path is None:
            raise self.unknown(agent_id)
        return self._served(agent_id, path, thread)

    def in_file(self, agent_id: str) -> AgentDefinition:
        """Return the agent as its file defines it now, whatever serves; raises as ``get`` does."""
        path = self._find(agent_id)
        if path is None:
            raise self.unknown(agent_id)
        return _valid(self._load(path))

    def usable(self) -> list[AgentDefinition]:
        """Return what serves of each agent of which something can, sorted by id."""
        served: list[AgentDefinition] = []
        for agent_id in self.ids():
            with suppress(DefinitionInvalid, AgentUnknown):  # or it was removed meanwhile
                served.append(self.get(agent_id))
        return served

    def serving(self) -> dict[str, int]:
        """Return the numbers of the versions that serve in place of what files say, by agent."""
        return {agent.id: agent.version for agent in self.usable() if agent.version is not None}

    def versions(self, agent_id: str) -> list[dict[str, Any]]:
        """Return the agent's versions as the interfaces show them, the newest first, and which one its file has."""
        listed = self._versions.listed(agent_id) if self._versions is not None else []
        with suppress(DefinitionInvalid):
            digest = self.in_file(agent_id).digest
            return [row | {"is_in_file": row["digest"] == digest} for row in listed]
        return [row | {"is_in_file": False} for row in listed]

    def content(self, agent_id: str, number: int) -> dict[str, Any]:
        """Return the content of a version of the agent.

        Raises:
            VERSION_UNKNOWN: the agent has none of this number, or it is not kept.
        """
        assert self._versions is not None
        content_json = self._versions.content(self._versions.one(agent_id, number).digest)
        return dict(orjson.loads(content_json or "{}"))

    def version_for(self, principal: Principal, agent_id: str, number: int) -> AgentDefinition:
        """Return a version of an agent that a principal may start and may let serve, for a run that tries it.

        Raises:
            AgentUnknown, DefinitionInvalid, AGENT_FORBIDDEN: see ``startable``; or this code does not take the version.
            FORBIDDEN: the principal may not say which version serves.
            VERSION_UNKNOWN: the agent has none of this number, or it is not kept.
        """
        serving = self.startable(principal, agent_id)
        self.require_may_promote(principal, agent_id)
        assert self._versions is not None
        version = self._version(agent_id, self._versions.one(agent_id, number).digest, number)
        return version.model_copy(update={"file": serving.file, "access": serving.access})

    def register(self, agent_id: str | None = None) -> None:
        """Give each content that the files have now its version, or that of one agent's; none is written again."""
        definitions = self.all() if agent_id is None else [self.in_file(agent_id)]
        for definition in definitions if self._versions is not None else ():
            if isinstance(definition, AgentDefinition):
                assert self._versions is not None
                self._versions.register(definition.id, definition.digest, definition.content_json)

    def seen_by(self, principal: Principal) -> list[AgentDefinition]:
        """Return the usable agents that exist for a principal, sorted by id."""
        return [definition for definition in self.usable() if sees_agent(principal, definition)]

    def get_for(self, principal: Principal, agent_id: str, thread: str = "") -> AgentDefinition:
        """Return an agent that exists for a principal; see ``get``.

        Raises:
            AgentUnknown: there is none.
            DefinitionInvalid: its file cannot be used, and the principal may know; for others it is unknown.
        """
        if principal.agents is not None and agent_id not in principal.agents:
            raise self.unknown(agent_id)
        try:
            definition = self.get(agent_id, thread)
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

    def startable(self, principal: Principal, agent_id: str, thread: str = "") -> AgentDefinition:
        """Return an agent that a principal may start, as it serves the principal's thread ``thread``.

        Raises:
            AgentUnknown, DefinitionInvalid: see ``get_for``.
            AGENT_FORBIDDEN: the agent's definition, or the credential, does not let the principal start it.
        """
        whose = f"{principal.tenant}/{principal.id}/{thread}" if thread else ""
        definition = self.get_for(principal, agent_id, whose)
        if not may_start(principal, definition):
            raise agent_forbidden(principal, agent_id)
        return definition

    def require_may_promote(self, principal: Principal, agent_id: str) -> None:
        """Return if a principal may say which version of an agent serves.

        Raises:
            AgentUnknown: see ``get_for``.
            FORBIDDEN: it may not.
        """
        with suppress(DefinitionInvalid):  # raised for administrators alone; another version may mend it
            if not may_promote(principal, self.get_for(principal, agent_id)) and principal != self._local:
                raise promotion_forbidden(principal, agent_id)

    def unknown(self, agent_id: str) -> AgentUnknown:
        """Return the error that names the ids that there are, and says how to add one."""
        here = Path.cwd()
        folders = [str(path.relative_to(here) if path.is_relative_to(here) else path) for path in self._folders]
        return AgentUnknown(agent_id, self.ids(), folders)

    def all(self) -> list[AgentDefinition | DefinitionInvalid]:
        """Return every agent, sorted by id, with the error in place of an invalid one."""
        return [self._load(path) for path in sorted(self._files(), key=lambda path: path.stem)]

    def _files(self) -> list[Path]:
        first: dict[str, Path] = {}
        for path in yaml_files(self._folders):
            first.setdefault(path.stem, path)
        return list(first.values())

    def hidden(self) -> list[tuple[Path, Path]]:
        """Return each file that is not read since a folder before has one with its id: that one, and the file."""
        first = {path.stem: path for path in self._files()}
        return [(first[path.stem], path) for path in yaml_files(self._folders) if first[path.stem] != path]

    def _find(self, agent_id: str) -> Path | None:
        if not AGENT_ID.fullmatch(agent_id) or agent_id.startswith("."):
            return None
        paths = (folder / f"{agent_id}{ending}" for folder in self._folders for ending in YAML_SUFFIXES)
        try:
            return next((path for path in paths if path.exists()), None)
        except OSError as error:
            raise DefinitionUnreadable.of(self._folders[0], error) from error

    def upgrade_of(self, journal: Journal, principal: Principal, run_id: str) -> RunUpgrade:
        """Return to which version a waiting run may be moved: the one that serves its thread now.

        Both who asks and the run's own principal have to be allowed to start that version.

        Raises:
            RunUnknown: there is no such run, or the principal does not see it.
            FORBIDDEN: the principal may not do this with it.
            AgentUnknown, DefinitionInvalid, AGENT_FORBIDDEN: see ``startable``.
            UPGRADE_REFUSED: the run does not wait, or behaves as that version does.
        """
        row = journal.readers.runs.row(principal, run_id)
        require(principal, Verb.CONTROL, row, "this run")
        self.startable(principal, row.agent_id)
        definition = self.startable(principal_of(row), row.agent_id, row.thread_id)
        before_json = journal.readers.recorded_definition(row.definition_digest)
        RunVersion.require_movable(row, before_json, definition.content_json)
        return RunUpgrade(run=row, definition=definition, before_json=before_json)

    # --- what serves

    def _served(self, agent_id: str, path: Path, thread: str) -> AgentDefinition:
        """Return what serves of an agent that has a file; who may start it is as the last usable file says."""
        written = self._load(path)
        if self._versions is None or isinstance(written, DefinitionUnreadable):
            return _valid(written)
        alias = self._versions.chosen(agent_id, thread)
        if isinstance(written, AgentDefinition):
            self._keep_access(self._versions, written)
            if alias is None:
                return written
            version = self._version(agent_id, alias.digest, alias.number)
            return version.model_copy(update={"file": str(path), "access": written.access})
        self._report(agent_id, written)
        in_file = self._versions.last(agent_id)
        if in_file is None:
            return _valid(written)
        last = self._version(agent_id, in_file.digest, in_file.number)
        version = last if alias is None else self._version(agent_id, alias.digest, alias.number)
        return version.model_copy(update={"file": str(path), "access": last.access, "problem": str(written)})

    def _report(self, agent_id: str, error: DefinitionInvalid) -> None:
        if self._reported.get(agent_id) != str(error):
            self._reported[agent_id] = str(error)
            log.warning(
                "the file of agent '%s' cannot be used; its last version serves, if it had one: %s", agent_id, error
            )

    def _keep_access(self, versions: AgentVersions, written: AgentDefinition) -> None:
        """Register a content that others may start than the one before, so that this counts if the file breaks.

        A start that is refused registers none. Each process looks at each content once.
        """
        file_stamp = self._read[written.id][0]
        if self._looked_at.get(written.id) == file_stamp:
            return
        with suppress(CallboardError):  # the next start tries again
            last = versions.last(written.id)
            if last is not None and last.digest != written.digest:
                content = orjson.loads(versions.content(last.digest) or "{}")
                if content.get("access") != orjson.loads(written.content_json).get("access"):
                    versions.register(written.id, written.digest, written.content_json)
            self._looked_at[written.id] = file_stamp

    def _version(self, agent_id: str, digest: str, number: int) -> AgentDefinition:
        """Return a version of an agent.

        Raises:
            DefinitionInvalid: it is not kept, or this code does not take it. No other version serves in its place.
        """
        definition = self._by_digest.get((agent_id, digest))
        if definition is None:
            assert self._versions is not None
            content_json = self._versions.content(digest)
            if content_json is None:
                problem = f"is not kept any more; promote another one: ./callboard agents promote {agent_id} VERSION."
                raise DefinitionInvalid(f"version {number} of agent '{agent_id}'", None, None, problem)
            definition = pinned_definition(agent_id, digest, content_json)
            if len(self._by_digest) >= MAX_VERSIONS:
                self._by_digest.clear()
            self._by_digest[agent_id, digest] = definition = definition.model_copy(update={"version": number})
        return definition

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


def principal_of(run: Any) -> Principal:
    """Return the principal of a run, from its row, with the roles with which it was started."""
    roles = frozenset(map(Role, orjson.loads(run.roles_json or "[]")))
    return Principal(tenant=run.tenant, id=run.principal, roles=roles)


class RunUpgrade(NamedTuple):
    """What moving a waiting run to the version of its agent that serves now would change."""

    run: Any
    """Its row."""
    definition: AgentDefinition
    """The version."""
    before_json: str | None
    """The content that the run has; None where it is not kept."""

    @property
    def changes(self) -> list[dict[str, Any]]:
        """The fields that differ, with their values."""
        before = orjson.loads(self.before_json) if self.before_json is not None else {}
        return changes(before, orjson.loads(self.definition.content_json))

    def version(self, digest: str) -> RunVersion:
        """Return what the run is moved to, if that is the version with the digest that a person was shown.

        Raises:
            UPGRADE_REFUSED: another one serves by now.
        """
        its = self.definition
        if its.digest != digest:
            raise UPGRADE_REFUSED(
                f"the version of '{its.id}' that serves is {its.digest[:12]} and not {digest[:12]}, which was shown; "
                "look at what would change now, and confirm that."
            )
        model = resolve_model(its.model, os.environ)
        ours = {"digest": its.digest, "content_json": its.content_json, "agent_name": its.name, "model": model}
        return RunVersion(**ours, queue=its.queue)


def _valid(written: AgentDefinition | DefinitionInvalid) -> AgentDefinition:
    if isinstance(written, DefinitionInvalid):
        # A new exception each time: a cached one would collect the tracebacks of all callers.
        raise written.with_traceback(None)
    return written
