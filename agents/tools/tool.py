"""A tool: a function, its description for the model, and its effect."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypedDict, TypeVar, Unpack, overload

import orjson

from agents.tools.requests import TaskCall
from config.definitions.errors import ToolUnknown
from config.definitions.mcp.names import identity_of
from config.definitions.secrets import REFERENCE, REFERENCE_FORM
from config.effects import (
    INWARD,
    MAX_RETRIES,
    OUTWARD,
    RETRIES,
    SENSITIVE,
    TRUSTED,
    UNTRUSTED,
    CapabilityKind,
    Classification,
    Effect,
    OnExpiry,
    Scope,
)
from config.identity.principal import Role
from config.text.names import did_you_mean
from config.text.stored_texts import stored_line
from config.text.visible import visible

MAX_TITLE_CHARS, MAX_ARGUMENT_CHARS, MAX_SENTENCE_CHARS = 200, 120, 400
"""Most characters of a tool's title, of an argument in it, and of the sentence that it becomes."""
_PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}", re.ASCII)
F = TypeVar("F", bound=Callable[..., Any])
E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """A function that the model may call, with its schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema 2020-12 of the arguments, an object."""
    function: Callable[..., Any]
    title: str = ""
    """What a call does, as a person reads it who decides about it: ``Pay back {amount} EUR for order {order}``."""
    effect: Effect = Effect.UNSAFE
    timeout_s: float | None = None
    """Seconds a call may take; None takes the agent's ``timeouts.tool_s``."""
    confirm: bool = False
    """Whether a person has to approve each call."""
    confirm_reason: str = "This tool needs a person's approval for each call."
    """Why, as the person reads it."""
    on_expiry: OnExpiry = OnExpiry.FAIL
    """What is done about a call that no person approves or rejects in time."""
    answer_s: float | None = None
    """Seconds that persons have to approve a call; None: those of the settings, which are the most."""
    approvers: int = 1
    """How many persons have to approve a call; from two on, the run's own principal is none of them."""
    default: Any = None
    """The result, as JSON data, that ``OnExpiry.TAKE_DEFAULT`` takes."""
    check: Callable[[str], Any] | None = None
    """For ``checkable`` tools: takes the idempotency key, and returns the call's result, or None without effect."""
    task: TaskCall | None = None
    """For work that another system does: how a call is begun there and its result comes back, while the run waits
    without a worker. ``function`` is not called then."""
    child: str | None = None
    """The agent to whose child run its calls are delegated, while the run waits without a worker. ``function`` is not
    called then."""
    body: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    """Of the batches of a FOR_EACH: what a child run is given for a call's arguments; its workflow is the caller's."""
    sticky: tuple[str, ...] = ()
    """For which later calls an approval may hold too: ``thread``, ``tool``; none: each call needs its own."""
    sticky_s: int = 3600
    """For how many seconds at most such an approval holds."""
    version: str = "1.0.0"
    """Of the tool, as its maintainer counts; an approval holds for one version."""
    implementation: str | None = None
    """SHA-256 of what carries out its calls where a file declares it, such as an image; an approval holds for it."""
    attempts: int = 1
    """How often its own code may make a call; more than once it is no ``unsafe`` one."""
    retries: int = RETRIES
    """How often a call that failed is made again, where its effect class and the call's time allow it."""
    maintainer: str = ""
    """Who answers for it: a name or an address."""
    kind: CapabilityKind | None = None
    classification: Classification = Classification.INTERNAL
    """Of its data; a person has to approve each call of a ``RESTRICTED`` one."""
    roles: frozenset[Role] = frozenset()
    """The roles of which a run's principal needs one to call it; none: all principals may."""
    output_schema: Mapping[str, Any] | None = None
    """JSON Schema 2020-12 of its result; None accepts any."""
    hosts: tuple[str, ...] | None = None
    """The hosts to which its calls may connect, as ``CALLBOARD_HTTP_ALLOWED_HOSTS`` writes them; None: no own limit."""
    keeps_hosts: bool = False
    """Whether its own requests are refused to all other hosts, so that an agent may narrow ``hosts``."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Its name for a secret -> the deployment's reference, resolved at the call."""
    hands_over: bool = False
    """Whether its calls may hand the run over to another agent; such a call is the only one of its answer."""
    mcp: tuple[str, str] | None = None
    """The MCP server that has it, and its name there; ``implementation`` is the digest of its definition."""
    labels: frozenset[str] = frozenset()
    """What its result is, for policies: ``untrusted``, ``trusted``, ``sensitive``, or a label of the deployment's own.
    ``outward`` and ``inward`` say of its calls whether they leave for another system."""

    line: str = ""
    """The line of its agent's ``tools`` that names it; one line may name several."""

    @property
    def identity(self) -> str:
        """``mcp:server/tool``, by which rules and approvals know it; empty of a tool of no MCP server."""
        return "" if self.mcp is None else identity_of(*self.mcp)

    def __post_init__(self) -> None:
        """Refuse, before any call, an effect whose recovery asks a ``check`` that is not there.

        Raises:
            ToolUnknown: the tool has none.
        """
        if self.effect.policy.needs_check and self.check is None:
            where = f"{self.function.__module__}:{self.name}"
            raise ToolUnknown(
                f"tool '{self.name}' ({where}) is '{self.effect}' and has no `check`, so its outcome could not be "
                f"checked; write @tool(effect='{self.effect}', check=...), or another effect.",
                name=self.name,
            )

    @property
    def needs_approval(self) -> bool:
        """Whether a person has to approve each call: also of restricted data, and where only a number is given."""
        return self.confirm or self.approvers > 1 or self.classification is Classification.RESTRICTED

    @property
    def is_outward(self) -> bool:
        """Whether its calls leave for another system: with an effect or hosts they do, unless it says otherwise."""
        if OUTWARD in self.labels:
            return True
        return INWARD not in self.labels and (self.effect is not Effect.PURE or bool(self.hosts))

    @property
    def leaves(self) -> bool:
        """Whether its calls reach another system at all: outward ones, and a connector's, which may only ask it."""
        asks_elsewhere = self.kind in (CapabilityKind.CONNECTOR, CapabilityKind.COMMANDER)
        return self.is_outward or (asks_elsewhere and INWARD not in self.labels)

    @property
    def is_untrusted(self) -> bool:
        """Whether others may have written its results: of a tool that reads from another system they may, unless it
        says otherwise."""
        if UNTRUSTED in self.labels:
            return True
        reads_outside = self.kind is CapabilityKind.CONNECTOR or bool(self.hosts) or self.task is not None
        return TRUSTED not in self.labels and reads_outside

    @property
    def result_labels(self) -> frozenset[str]:
        """The labels of what a run has read once it has a result."""
        of_data = {SENSITIVE} if self.classification is Classification.RESTRICTED else set()
        of_origin = {UNTRUSTED} if self.is_untrusted else set()
        return self.labels - {OUTWARD, INWARD, TRUSTED} | of_data | of_origin

    @property
    def title_problem(self) -> str | None:
        """What is wrong with the title, as a sentence; None: nothing is."""
        if len(self.title) > MAX_TITLE_CHARS:
            return f"its title has to be a text of at most {MAX_TITLE_CHARS} characters"
        arguments = self.parameters.get("properties", {})
        unknown = next((name for name in _PLACE.findall(self.title) if name not in arguments), None)
        if unknown is None:
            return None
        near = did_you_mean(unknown, arguments)
        return f"its title has {{{unknown}}}, which is no argument of it.{near} Its arguments: {', '.join(arguments)}"

    def sentence(self, arguments: Mapping[str, Any]) -> str:
        """Return the title with these arguments, or their defaults, and ``…`` for missing ones; empty without one.

        An argument is text: nothing in it is a place, and hidden characters are shown by their numbers.
        """
        properties = self.parameters.get("properties", {})

        def text_of(place: re.Match[str]) -> str:
            part = properties.get(place[1])
            default = part.get("default") if isinstance(part, Mapping) else None
            value = arguments.get(place[1], default)
            if value is None:
                return "…"
            text = value if isinstance(value, str) else orjson.dumps(value).decode()
            return stored_line(visible(text[: 4 * MAX_ARGUMENT_CHARS]), MAX_ARGUMENT_CHARS) or '""'

        return stored_line(_PLACE.sub(text_of, visible(self.title)), MAX_SENTENCE_CHARS)

    def may_be_called_with(self, roles: Collection[Role]) -> bool:
        """Return whether a principal with these roles may call it."""
        return not self.roles or not self.roles.isdisjoint(roles)

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)


FOR_AGENT = "__callboard_for_agent__"
"""The attribute of a function that makes its tool another one for each agent: it takes the built tool, the agent's
definition and the settings, and returns the agent's own."""
MARKS = "__callboard_tool__"
"""The attribute of a function with what ``@tool`` says of it: fields of its ``Tool``, kept until that is built."""
HOSTS_OF_FUNCTION = (
    "hosts cannot be enforced for a function, which connects where its code does; leave them out and write "
    "labels={'outward', 'untrusted'} for a tool that asks other systems, or declare a capability with the runner "
    "`http` or `container`."
)


class Marks(TypedDict, total=False):
    """What ``@tool`` may say of a function: fields of its ``Tool``, which says what they mean."""

    name: str | None
    """What the model calls it; the function's name by default."""
    title: str
    effect: Effect | str
    """The effect class (docs/glossary.md), by which retries are decided; ``unsafe`` by default."""
    timeout_s: float | None
    confirm: bool
    on_expiry: OnExpiry | str
    """What is done without an answer in time: ``fail``, ``reject`` or ``take_default``."""
    default: Any
    approvers: int
    check: Callable[[str], Any] | None
    sticky: Collection[str]
    sticky_s: int
    retries: int
    version: str
    maintainer: str
    kind: CapabilityKind | str
    classification: Classification | str
    roles: Collection[Role | str]
    output_schema: Mapping[str, Any]
    secrets: Mapping[str, str]
    labels: Collection[str]
    hands_over: bool


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(**marks: Unpack[Marks]) -> Callable[[F], F]: ...
def tool(function: Callable[..., Any] | None = None, /, **marks: Unpack[Marks]) -> Any:
    """Mark a function as a tool, with or without parentheses; it stays an ordinary function.

    Raises:
        ValueError, TypeError: the marks are none; see ``_checked``.
    """
    fields = _checked(marks)

    def mark(target: Callable[..., Any]) -> Callable[..., Any]:
        setattr(target, MARKS, fields)
        return target

    return mark if function is None else mark(function)


def _member(kind: type[E], value: str, argument: str) -> E:
    """Return the member of a closed set that an argument of ``@tool`` names.

    Raises:
        ValueError: it names none; the sentence has the values.
    """
    values = [str(member) for member in kind]
    if value not in values:
        near = did_you_mean(str(value), values)
        raise ValueError(f"@tool({argument}={value!r}): it is one of {', '.join(map(repr, values))}.{near}")
    return kind(value)


def _retries(number: object) -> int:
    if not isinstance(number, int) or not 0 <= number <= MAX_RETRIES:
        raise ValueError(f"@tool(retries={number!r}): it is a number from 0 to {MAX_RETRIES}")
    return number


_MADE_OF: Mapping[str, Callable[[Any], Any]] = {
    "effect": lambda effect: _member(Effect, effect, "effect"),
    "on_expiry": lambda on_expiry: _member(OnExpiry, on_expiry, "on_expiry"),
    "sticky": lambda scopes: tuple(_member(Scope, scope, "sticky") for scope in scopes),
    "kind": lambda kind: _member(CapabilityKind, kind, "kind"),
    "classification": lambda classification: _member(Classification, classification, "classification"),
    "roles": lambda roles: frozenset(_member(Role, role, "roles") for role in roles),
    "labels": frozenset,
    "retries": _retries,
    "secrets": dict,
}


def keeps_hosts(function: F) -> F:
    """Mark a tool that makes every request under ``ToolContext.hosts``; above ``@tool``."""
    getattr(function, MARKS)["keeps_hosts"] = True
    return function


def without_network(function: F) -> F:
    """Mark a tool whose calls run where there is no network; above ``@tool``."""
    getattr(function, MARKS)["hosts"] = ()
    return function


def _checked(marks: Mapping[str, Any]) -> dict[str, Any]:
    """Return the marks as fields of ``Tool``.

    Raises:
        ValueError: an effect, classification, role or kind that is none, a secret that is no reference, ``hosts``,
            or ``retries`` that are too many or of an unsafe tool.
        TypeError: there is no such field.
    """
    if "hosts" in marks:
        raise ValueError(f"@tool(hosts=...): {HOSTS_OF_FUNCTION}")
    unknown = set(marks) - Marks.__annotations__.keys()
    if unknown:
        raise TypeError(f"@tool has no argument {', '.join(sorted(unknown))}")
    for name, reference in marks.get("secrets", {}).items():
        if not REFERENCE.fullmatch(reference):
            raise ValueError(f"the secret {name} has to be {REFERENCE_FORM}, and never the secret itself")
    fields = {name: _MADE_OF[name](value) if name in _MADE_OF else value for name, value in marks.items()}
    if fields.get("retries") and not fields.get("effect", Effect.UNSAFE).policy.may_repeat:
        raise ValueError(f"@tool(retries={fields['retries']}) would repeat an unsafe call; write another effect")
    return fields
