"""The test kit: an agent with its tools, run in memory by a scripted model, in milliseconds (docs/testing.md).

``AgentKit`` needs no server, no Redis and no key, and imports no LiteLLM. What runs is the agent itself: the same
journal, tool calls and events as in a worker.
"""

from __future__ import annotations

import asyncio
import atexit
import dataclasses
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

import orjson
from sqlalchemy import event

from agents.capabilities.build import capability_tool
from agents.capabilities.folder import declared
from agents.catalogue import as_tool, find_tool
from agents.governance.guardrails.guardrails import guard_of, sealing_guardrails
from agents.governance.policy.policy_yaml import PolicySource
from agents.handle import RunHandle
from agents.models.call import is_in_process
from agents.models.scripted import Call, ScriptedModel, Turn
from agents.process import Process, use_process
from agents.recording.recording import Recording, read_recording
from agents.recording.replay import Replay, conversation, replayed_fields, tool_of_line
from agents.registry import AgentRegistry
from agents.runner import Runner
from agents.tools.call_context import ToolContext
from agents.tools.execution.executor import call_tool
from agents.tools.isolation.call_folder import CallSandbox
from agents.tools.results import validate_output
from agents.tools.schema import validate_arguments
from agents.tools.tool import Tool
from bus.celery_app import Publisher
from bus.journal import Journal
from bus.journal.clients import RecordedCalls, import_conversation
from bus.payloads import EndPayload, Payload, ResponsePayload, ToolResultPayload, WithdrawnPayload
from config.database.engine import Database, open_database
from config.database.migrate import migrate
from config.definitions.agent import AgentDefinition
from config.definitions.capability import CapabilityDefinition
from config.definitions.errors import DefinitionInvalid
from config.definitions.loading import definition_of, pinned_definition
from config.definitions.runner_spec import EndpointSpec
from config.definitions.workflows.fields import PROMPT
from config.forks import after_fork
from config.identity.contexts import GoldenContext, SecurityContext
from config.identity.principal import Role
from config.ids import new_id
from config.settings import Settings
from config.settings import settings as current_settings
from config.tracing import new_trace_id
from observers.invoker import drain

__all__ = ["AgentKit", "Call", "Played", "ScriptedModel", "Turn", "call_capability"]

ToolSource = Callable[..., Any] | Tool | str
P = TypeVar("P", bound=Payload)
TIMEOUT_S = 30.0
"""Seconds that ``play`` waits for the end of a run."""
_DEFAULTS: dict[str, Any] = {"name": "Tester", "system_prompt": "You are a test.", "observers": ["sse"]}


@dataclass(frozen=True, kw_only=True, slots=True)
class Played:
    """The recorded events of a run that has ended."""

    events: Sequence[Payload]

    @property
    def end(self) -> EndPayload:
        """The last event: status, reason, output, usage."""
        last = self.events[-1]
        assert isinstance(last, EndPayload), f"the last event is {type(last).__name__}"
        return last

    @property
    def output(self) -> Any:
        """The agent's answer: text, or data where it has an output schema."""
        return self.end.output

    @property
    def text(self) -> str:
        """The streamed pieces of all answers, without those that were withdrawn."""
        gone = {
            n for payload in self.of(WithdrawnPayload) for first, last in payload.ranges for n in range(first, last + 1)
        }
        return "".join(piece.content for piece in self.of(ResponsePayload) if piece.seq not in gone)

    def of(self, kind: type[P]) -> list[P]:
        """Return the events of one type, in order."""
        return [event for event in self.events if type(event) is kind]

    def results(self, tool: str) -> list[Any]:
        """Return the results of a tool's calls, in the order they ended."""
        return [result.result for result in self.of(ToolResultPayload) if result.name == tool]


class AgentKit:
    """An agent called ``tester`` with these tools, whose answers are scripted in ``kit.model``.

    Use it as ``with AgentKit(tools=[add]) as kit``. ``agents_dir`` makes the agents of that folder available as well,
    with their own prompts and tools and the kit's model. Further keywords are fields of the agent's definition.
    """

    def __init__(
        self,
        *,
        tools: Sequence[ToolSource] = (),
        agents_dir: str | Path | None = None,
        settings: dict[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        self.model = ScriptedModel()
        self._database = take_database()
        self.settings = _settings(self._database, agents_dir, settings or {})
        self._registry = KitRegistry(self.settings.agent_folders if agents_dir else (), self.model.name)
        self._tools: dict[str, Tool] = {}
        self._replays: dict[str, RecordedCalls] = {}
        self.agent(tools=tools, **fields)
        publish, guard = Publisher(self.settings), partial(guard_of, self.settings)
        journal = Journal(self.settings, publish=publish, guard=guard, database=self._database)
        process = Process(
            settings=self.settings,
            journal=journal,
            registry=self._registry,
            policies=PolicySource(self.settings.policy_places),
            tools=self._tools,
            replays=self._replays,
        )
        use_process(process)
        self.runner = Runner(process)

    def agent(self, agent_id: str = "tester", *, tools: Sequence[ToolSource] = (), **fields: Any) -> str:
        """Define an agent, or define it anew, and return its id; ``tools`` are functions or names."""
        named = [tool if isinstance(tool, str) else self._add(as_tool(tool)) for tool in tools]
        self._registry.defined[agent_id] = {**_DEFAULTS, **fields, "tools": named}
        return agent_id

    def workflow(self, workflow_id: str = "flow", *, tools: Sequence[ToolSource] = (), **fields: Any) -> str:
        """Define a workflow by the fields of its file, and return its id; ``tools`` are functions that nodes call."""
        return self.agent(workflow_id, tools=tools, **{"name": "Flow", "system_prompt": PROMPT, **fields})

    def start(self, workflow_id: str = "flow", data: Mapping[str, Any] | None = None, **options: Any) -> RunHandle:
        """Start a workflow with its input and return its handle; ``options`` are those of ``Runner.run_workflow``."""
        return self.runner.run_workflow(workflow_id, data or {}, **options)

    def run(self, objective: str = "Hello", agent_id: str = "tester", **options: Any) -> RunHandle:
        """Start a run and return its handle; ``options`` are those of ``Runner.run``."""
        return self.runner.run(objective, agent_id, **options)

    def play(self, objective: str = "Hello", agent_id: str = "tester", **options: Any) -> Played:
        """Run to the end and return what happened."""
        return self.played(self.run(objective, agent_id, **options))

    def played(self, handle: RunHandle) -> Played:
        """Return what happened in a run, once it has ended.

        Raises:
            TimeoutError: it does not end; if it waits for a person, ``handle.decide`` comes first.
        """
        handle.result(TIMEOUT_S)
        return Played(events=list(handle.events()))

    def replay(self, file: str | Path, agent_id: str | None = None) -> Played:
        """Run the agent of a recording with its answers and outcomes, and return what happened; no tool is called.

        ``file`` is what ``./callboard runs export`` wrote. ``agent_id`` replays it with an agent of this kit instead.

        Raises:
            AssertionError: what the model was sent, or the outcome, differs, or a recorded part is left over.
            RECORDING_INVALID: the file cannot be used: it was edited, or a tool of it is not there.
        """
        recording = read_recording(file)
        if agent_id is None:
            agent_id = self._define_recorded(recording)
        definition = self._registry.get(agent_id)
        imported = conversation(recording, sealing_guardrails(self.settings, definition.guardrails)[0])
        principal = dataclasses.replace(self.runner.principal, roles=frozenset(map(Role, recording.roles)))
        database = self.runner.journal.database
        thread_id = import_conversation(database, principal, agent_id, **imported)
        replay, respond = Replay(recording), self.model.respond
        self._replays[thread_id], self.model.respond = replay.calls, replay.respond
        try:
            played = self.play(recording.input, agent_id, thread_id=thread_id, principal=principal)
        finally:
            self.model.respond = respond
            del self._replays[thread_id]
        replay.require_same(played.events)
        return played

    def _define_recorded(self, recording: Recording) -> str:
        """Define the agent of a recording, and return its id."""
        agent_id = f"{recording.run.agent[:54]}.recorded"  # beside the agent as it is now
        definition = definition_of(agent_id, recording.definition)
        lines = {line for agent in self._registry.all() if isinstance(agent, AgentDefinition) for line in agent.tools}

        find = partial(tool_of_line, tools=self._tools, known_lines=lines, settings=self.settings)
        self._registry.defined[agent_id] = replayed_fields(recording, definition, find, self._tools)
        return agent_id

    def close(self, timeout_s: float = TIMEOUT_S) -> None:
        """Wait for open runs and their observers, and make the database available for the next kit.

        Raises:
            TimeoutError: a run did not end within ``timeout_s``; the kit is closed.
        """
        self.model.resume(0)
        has_ended = False
        try:
            self.runner.settle(timeout_s)
            has_ended = True
        finally:
            self.runner.close()
            self._database.close()
            if drain(idle_too=False) and has_ended:  # what is late may write into the folder at any time
                give_back(self._database)

    def __enter__(self) -> AgentKit:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Close the kit; after an error, such as a failed assertion, that is raised, whatever runs are open."""
        if error is None:
            self.close()
            return
        with suppress(TimeoutError):
            self.close(timeout_s=0)

    def _add(self, tool: Tool) -> str:
        self._tools[tool.name] = tool
        return tool.name


_REMOTE = ("api_base", "api_key_env", "fallbacks")
"""Fields that would let a test ask a model elsewhere; of the fallbacks, models of this process are asked."""


class KitRegistry(AgentRegistry):
    """The agents of a kit: those defined in Python, then those of a folder; all of them ask the kit's model."""

    def __init__(self, folders: Sequence[Path], model: str) -> None:
        super().__init__(folders)
        self._model = model
        self.defined: dict[str, dict[str, Any]] = {}
        """The fields of the agents defined in Python, by id."""

    def ids(self) -> list[str]:
        return sorted({*super().ids(), *self.defined})

    def all(self) -> list[AgentDefinition | DefinitionInvalid]:
        return [self._tried(agent_id) for agent_id in self.ids()]

    def _tried(self, agent_id: str) -> AgentDefinition | DefinitionInvalid:
        try:
            return self.get(agent_id)
        except DefinitionInvalid as error:
            return error

    def get(self, agent_id: str, thread: str = "") -> AgentDefinition:
        fields = self.defined.get(agent_id)
        if fields is None:
            fields = orjson.loads(super().get(agent_id).content_json)
        content = {name: value for name, value in fields.items() if name not in _REMOTE}
        scripted = [name for name in fields.get("fallbacks", ()) if isinstance(name, str) and is_in_process(name)]
        content |= {"fallbacks": scripted} if scripted else {}
        return pinned_definition(agent_id, "", orjson.dumps({**content, "model": self._model}).decode())


def _settings(database: Database, agents_dir: str | Path | None, chosen: dict[str, Any]) -> Settings:
    folder = Path(str(database.engine.url.database)).parent
    return Settings(
        _env_file=None,  # type: ignore[call-arg]  # pydantic-settings' own: the developer's configuration stays outside
        **{
            "state_dir": folder / "state",
            "database_url": str(database.engine.url),
            "redis_url": None,
            "broker_url": None,
            "agents_dir": str(agents_dir or folder / "agents"),
            **chosen,
        },
    )


# --- databases --------------------------------------------------------------------------------------

_free: list[Database] = []
"""Databases of kits that have ended: one is emptied and reused, because its engine has compiled the statements already.

A kit's other files are in its folder, so that consecutive kits have equal settings, and observers and tools are looked
up once."""


def take_database() -> Database:
    """Return an empty database with the schema of this code, for one user at a time."""
    database = _free.pop() if _free else _new_database()
    path = Path(str(database.engine.url.database))
    for leftover in path.parent.iterdir():
        if leftover.is_dir():
            shutil.rmtree(leftover)
        elif leftover != path:  # which its engine knows by its inode
            leftover.unlink(missing_ok=True)
    path.write_bytes(_schema())
    return database


def give_back(database: Database) -> None:
    """Make a closed database available for the next kit, which empties it and its folder."""
    _free.append(database)


def _new_database() -> Database:
    folder = tempfile.mkdtemp(prefix="callboard-kit-")
    atexit.register(_remove, folder, os.getpid())
    database = open_database(f"sqlite:///{folder}/callboard.db")
    # No test turns the power off, so no commit waits for the disk.
    event.listen(database.engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=OFF"))
    return database


@lru_cache(maxsize=1)
def _schema() -> bytes:
    """Return the bytes of an empty database file, since migrating takes longer than most tests."""
    with tempfile.TemporaryDirectory(prefix="callboard-kit-") as folder:
        file = Path(folder) / "empty.db"
        migrate(
            Settings(
                _env_file=None,  # type: ignore[call-arg]  # pydantic-settings' own
                state_dir=Path(folder),
                database_url=f"sqlite:///{file}",
            )
        )
        return file.read_bytes()


def _remove(folder: str, pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)


@after_fork
def _forget() -> None:
    _free.clear()


# --- a capability alone


def call_capability(
    capability_id: str, arguments: Mapping[str, Any], *, url: str | None = None, settings: Settings | None = None
) -> Any:
    """Return the result of one call; ``url`` replaces that of an HTTP endpoint.

    Raises:
        ToolUnknown: there is no such capability, or it cannot be used.
        ModelVisible: the call failed, or the arguments or the result do not fit their schemas.
    """
    used = settings or current_settings()
    tool = find_tool(capability_id, used) if url is None else _asking(capability_id, url, used)
    validate_arguments(tool, arguments)
    with tempfile.TemporaryDirectory() as folder:
        result = asyncio.run(call_tool(tool, arguments, _context(tool, Path(folder)), tool.timeout_s or 60))
    validate_output(tool, result)
    return result


def _asking(capability_id: str, url: str, settings: Settings) -> Tool:
    """Return a capability that asks another server than its file says."""
    definition = declared(settings)[capability_id]
    assert isinstance(definition, CapabilityDefinition), str(definition)
    assert isinstance(definition.runner, EndpointSpec), f"'{capability_id}' asks no server"
    there = EndpointSpec(type="http", url=url, headers=definition.runner.headers)
    return capability_tool(definition.model_copy(update={"runner": there, "hosts": None}), settings)


def _context(tool: Tool, folder: Path) -> ToolContext:
    trace_id = new_trace_id()
    golden = GoldenContext(app_id="callboard", environment="test", initiator_id="local", trace_id=trace_id)
    usual = ToolContext(
        run_id=new_id("run"),
        thread_id=new_id("thread"),
        call_id=new_id("call"),
        idempotency_key=new_id("key"),
        tenant="default",
        principal="local",
        golden=golden,
        security=SecurityContext(initiator_id="local", roles=frozenset(Role), token_ref="process", trace_id=trace_id),
        files=CallSandbox(folder / "sandbox"),
    )
    return dataclasses.replace(usual, timeout_s=tool.timeout_s or 60, hosts=tool.hosts, secrets=tool.secrets)
