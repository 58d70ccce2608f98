"""An agent's definition: the fields of its YAML file; ``config.definitions.loading`` reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from config.definitions.behaviour import MAX_ITERATIONS, ON_DISCONNECT
from config.definitions.goal import in_our_words
from config.definitions.guardrails.checks import CheckSection, GuardrailFields
from config.definitions.guardrails.prompt_guard import PromptGuardFields
from config.definitions.model_fields import (
    OURS,
    Address,
    Compaction,
    Fallback,
    Text,
    Timeouts,
    Variable,
    require_others,
)
from config.definitions.router import Route, with_routes
from config.definitions.schemas.json_schema import SchemaRefused, check_schema
from config.definitions.secrets import require_no_credentials
from config.definitions.tool_override import ToolOverride
from config.identity.principal import NAME, Role
from config.settings import QUEUE_NAME
from config.text.visible import first_hidden

AGENT_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""Valid names of an agent's file, without its extension."""

TOOL_LINE = r"^([A-Za-z_][\w.-]*(:[A-Za-z_]\w*)?|(agent|workflow):[A-Za-z0-9_.-]{1,64}|celery:[\w.:/-]+|mcp:[\w.:/-]+)$"
_RESOURCE = r"^mcp:[A-Za-z][A-Za-z0-9_-]{0,31}(/[^\s\x00-\x1f]+)?$"
_PROMPT = r"^mcp:[A-Za-z][A-Za-z0-9_-]{0,31}(/[^\x00-\x1f*]+)?$"
_Name = Annotated[str, Field(pattern=rf"^{NAME}$")]
OnDisconnect = Annotated[str, Field(pattern=ON_DISCONNECT)]
"""``continue``, or what becomes of a run after so many seconds without viewers: ``stop:30``, ``pause:30``."""
Priority = Literal["low", "normal", "high"]
"""Before which queued runs of its tenant and queue a run begins."""


def _without_hidden(value: str) -> str:
    hidden = first_hidden(value)
    if hidden is not None:
        raise ValueError(f"has the hidden character {hidden}; leave it out")
    return value


_Readable = Annotated[str, AfterValidator(_without_hidden)]


class Access(CheckSection):
    """Who may start an agent's runs, and who sees them. An admin may start every agent of its tenant."""

    tenants: frozenset[_Name] = frozenset()
    """The tenants that may use the agent; none: all."""
    roles: frozenset[Role] = frozenset()
    principals: frozenset[_Name] = frozenset()
    """With ``roles``, the principals that may start the agent; without either, all of the tenant may."""
    runs: Literal["tenant", "private"] = "tenant"
    """Whether principals with a role see the agent's runs, or only each run's own principal and admins."""


class DefinitionFields(CheckSection):
    """The fields of an agent's file."""

    name: Annotated[_Readable, Field(min_length=1, max_length=80)]
    """The name shown to people."""
    description: Annotated[_Readable, Field(max_length=500)] = ""
    """One sentence for lists, and for agents that hand over to this one."""
    category_tag: Annotated[_Readable, Field(max_length=80)] = ""
    """What the agent belongs to, for agents that list others: ``finance``."""
    listed: Annotated[bool, Field(strict=True)] = True
    """Whether lists of agents have it; it can be started by its name in any case."""
    model: Text
    """A LiteLLM model, or ``auto``."""
    api_base: Address = None
    """Address of the provider, if not the usual one."""
    api_key_env: Variable | None = None
    """Name of the environment variable that holds the key, where it is not the provider's own."""
    fallbacks: Annotated[tuple[Fallback, ...], Field(min_length=1, max_length=8)] = ()
    """The models that are asked, in this order, when ``model`` cannot answer."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Passed to the model: temperature, max_tokens, ..."""
    system_prompt: Text
    """The first message to the model."""
    example_conversation_history: Annotated[str, Field(max_length=20_000)] = ""
    """A conversation that the model is shown as an example, below the system prompt."""
    tools: tuple[Annotated[str, Field(pattern=TOOL_LINE, max_length=200)], ...] = ()
    """Names of built-in tools, ``package.module:function``, ``agent:`` and the id of another agent, ``celery:`` and the
    name of a Celery task, or ``mcp:`` and an MCP server, alone or with ``/`` and one of its tools."""
    resources: tuple[Annotated[str, Field(pattern=_RESOURCE, max_length=2000)], ...] = ()
    """``mcp:`` and an MCP server whose resources the agent may read, alone or with ``/`` and a URI; ``*`` in it is any
    text."""
    prompts: tuple[Annotated[str, Field(pattern=_PROMPT, max_length=200)], ...] = ()
    """``mcp:`` and an MCP server whose prompts the agent may get, alone or with ``/`` and the name of one."""
    tool_overrides: dict[str, ToolOverride] = Field(default_factory=dict)
    """By the tool's name."""
    router: tuple[Route, ...] = ()
    """Which messages go to another agent without a question to the model; the first route that fits is taken."""
    databases: tuple[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$")], ...] = ()
    """The databases of the deployment that the agent's ``sql_query`` may ask, by name."""
    max_iterations: Annotated[int, Field(strict=True, ge=1, le=100_000)] = MAX_ITERATIONS
    """Most model calls with tools, before a last one without."""
    history_chars: Annotated[int, Field(strict=True, ge=1000, le=100_000_000)] = 200_000
    """Characters of the conversation that are sent to the model: the newest messages that fit, as stored."""
    compaction: Compaction = Field(default_factory=Compaction)
    timeouts: Timeouts = Field(default_factory=Timeouts)
    on_unknown: Literal["ask", "fail", "tell_model"] = "ask"
    """What happens when the outcome of an unsafe tool call is unknown."""
    ask_missing_arguments: Annotated[bool, Field(strict=True)] = False
    """Whether a person is asked for required arguments that the model left out of a call, instead of the model."""
    if_busy: Literal["enqueue", "reject", "interrupt", "rollback", "merge", "steer"] = "enqueue"
    """What becomes of a message for a thread that has an open run, unless the message says."""
    on_waiting: Literal["wait", "aside", "withdraw"] = "wait"
    """What the thread does while a run waits for a person: its next message waits too, is answered aside, or takes the
    question back."""
    on_disconnect: OnDisconnect = "continue"
    """What becomes of a run that has no viewers, unless its message says."""
    priority: Priority = "normal"
    """Before which queued runs of its tenant and queue a run begins, unless its message says."""
    observers: tuple[Text, ...] = ("sse", "logger")
    """The observers that get the run's events."""
    queue: Annotated[str, Field(pattern=rf"^{QUEUE_NAME}$")] | None = None
    """The queue of the agent's runs, if not the deployment's; workers with ``--queues`` serve it."""
    access: Access = Field(default_factory=Access)
    guardrails: GuardrailFields = Field(default_factory=GuardrailFields)
    """What is checked and redacted, besides what the deployment wants."""
    prompt_guard: PromptGuardFields | None = None
    """What checks the user's input against the agent's goal beside the first model call: a model or a function."""
    starters: tuple[Annotated[_Readable, Field(min_length=1, max_length=500)], ...] = ()
    """Sentences the page offers to begin with."""
    output_schema: dict[str, Any] | None = None
    """JSON Schema 2020-12 the answer has to fit."""

    @model_validator(mode="before")
    @classmethod
    def _as_ours(cls, data: Any, info: ValidationInfo) -> Any:
        """Write the fields of the first design's goals as ours, and the agents of routes as lines of ``tools``.

        The context is the agent's id, for what a file has.
        """
        if not isinstance(data, dict):
            return data
        return with_routes(in_our_words(data, info.context) if info.context is not None else data)

    @field_validator("fallbacks")
    @classmethod
    def _fallbacks_are_others(cls, value: tuple[Fallback, ...], info: ValidationInfo) -> tuple[Fallback, ...]:
        require_others(value, tuple(info.data.get(name) for name in Fallback.model_fields))
        return value

    @field_validator("params")
    @classmethod
    def _params_are_the_models(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name in value:
            if name in OURS:
                raise ValueError(f"`{name}` is Callboard's to set: {OURS[name]}")
        require_no_credentials(value)
        return value

    @field_validator("prompt_guard")
    @classmethod
    def _guards_a_model(cls, value: PromptGuardFields | None, info: ValidationInfo) -> PromptGuardFields | None:
        if value is not None and info.data.get("router"):
            raise ValueError(
                "does not see the messages that a route of `router` takes, since no model of this agent is asked; "
                "put it into the files of the agents that the routes lead to"
            )
        return value

    @field_validator("tools", "resources", "prompts", "observers", "databases")
    @classmethod
    def _named_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if value.count(name) > 1:
                raise ValueError(f"'{name}' is listed twice")
        return value

    @field_validator("output_schema")
    @classmethod
    def _schema_is_usable(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is None:
            return None
        try:
            check_schema(value)
        except SchemaRefused as error:
            raise ValueError(str(error).rstrip(".")) from error
        if value.get("type") != "object":
            raise ValueError("the schema needs `type: object` at its top, since providers answer with objects only")
        return value


class AgentDefinition(DefinitionFields):
    """A valid definition, with its id, digest and origin."""

    id: str
    """The file's name without its extension."""
    digest: str
    """SHA-256 of the content as canonical JSON; recorded in each run."""
    content_json: str = Field(repr=False)
    """The same content as JSON, stored by its digest when a run is accepted."""
    file: str
    """The file it was read from."""
    behaviour: str = ""
    """SHA-256 of what decides how a run behaves; see ``config.definitions.behaviour``."""
    version: int | None = None
    """Its number, where an earlier content serves in place of what the file says; None: the file's content serves."""
    problem: str = Field(default="", repr=False)
    """Why the file cannot be used, where ``version`` serves in its place."""

    @property
    def is_workflow(self) -> bool:
        """Whether it is a workflow's, whose runs walk a graph or follow a blueprint."""
        return False

    @property
    def asks_model(self) -> bool:
        """Whether its runs may ask ``model``."""
        return True

    @property
    def input_schema(self) -> Mapping[str, Any] | None:
        """What a run is started with, as JSON Schema; None: with a message."""
        return None

    def run_fields(self, observers: Sequence[str] = ()) -> dict[str, Any]:
        """Return what a new run takes from it; ``observers`` are named besides its own."""
        return {
            "agent_id": self.id,
            "agent_name": self.name,
            "definition_digest": self.digest,
            "definition_json": self.content_json,
            "observers": tuple(dict.fromkeys([*self.observers, *observers])),
            "queue": self.queue,
            "on_waiting": None if self.on_waiting == "wait" else self.on_waiting,
            "agent_if_busy": self.if_busy,
            "on_disconnect": self.on_disconnect,
            "priority": self.priority,
            "is_private": self.access.runs == "private",
        }
