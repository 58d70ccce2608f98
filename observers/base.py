"""The class to derive an observer from, and the frozen facts it is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from bus.payloads import (
    ApprovalPayload,
    ChildPayload,
    EndPayload,
    ErrorPayload,
    MessagePayload,
    Payload,
    ReasoningPayload,
    ResponsePayload,
    StatusPayload,
    ToolPayload,
    ToolResultPayload,
    WithdrawnPayload,
)
from config.settings import Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentFacts:
    """Who is speaking."""

    id: str
    name: str
    model: str
    """The LiteLLM model the run was accepted with."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFacts:
    """Where it is spoken."""

    run_id: str
    thread_id: str
    tenant: str = "default"
    principal: str = "local"
    fence: int = 0
    """Which owner writes; a later owner has a higher one."""
    detached: bool = False
    privileged: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)


class AgentObserver:
    """Sees every payload of every run it is named in; override ``on_response`` or one of the typed hooks.

    Called in the order of the run's numbers. Unless ``inline`` is set, on the observer's own thread,
    behind a queue: it may block, be slow or raise without touching a run. One instance serves a whole
    process, so state belongs in a dict by ``context.run_id``.
    """

    name: ClassVar[str] = ""
    """What definitions call it; the entry point's name by default."""
    inline: ClassVar[bool] = False
    """Call me on the event loop, between two chunks. Only for code that never waits (under 50 µs); one
    that takes over 5 ms thrice is moved behind a queue for the rest of the process."""
    pinned: ClassVar[bool] = False
    """Never move me behind a queue, however slow: I need the thread I am called on."""
    wants_deltas: bool = True
    """Whether pieces of text are delivered; without them only committed events are."""
    max_queue: int = 10_000
    """Payloads that may wait for a slow observer; beyond it pieces of text are dropped, beyond twice of it
    committed events as well, except the ``end`` of a run of which something was taken."""
    linger_s: float = 0.01
    """Seconds a queue gathers payloads before it delivers a batch."""

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Return the process's instance; override it to read settings. Called once, on first use."""
        return cls()

    def listens(self) -> bool:
        """Return whether anybody would hear; asked once a run, before its first payload."""
        return True

    def on_response(self, agent: AgentFacts, payload: Payload, context: RunFacts) -> None:
        """Take one payload; the default calls the typed hook of its kind."""
        hook = _HOOKS.get(type(payload).type)
        if hook is not None:
            getattr(self, hook)(agent, payload, context)

    def on_status(self, agent: AgentFacts, payload: StatusPayload, context: RunFacts) -> None:
        """Take a change of the run's state."""

    def on_text(self, agent: AgentFacts, payload: ResponsePayload, context: RunFacts) -> None:
        """Take a piece of the answer, many times a second."""

    def on_reasoning(self, agent: AgentFacts, payload: ReasoningPayload, context: RunFacts) -> None:
        """Take a piece of thinking, many times a second."""

    def on_tool(self, agent: AgentFacts, payload: ToolPayload, context: RunFacts) -> None:
        """Take a tool call: first perhaps its name alone, then once with its arguments."""

    def on_tool_result(self, agent: AgentFacts, payload: ToolResultPayload, context: RunFacts) -> None:
        """Take the outcome of a tool call."""

    def on_approval(self, agent: AgentFacts, payload: ApprovalPayload, context: RunFacts) -> None:
        """Take a question to a person, or its answer."""

    def on_message(self, agent: AgentFacts, payload: MessagePayload, context: RunFacts) -> None:
        """Take a whole message, after its pieces."""

    def on_child(self, agent: AgentFacts, payload: ChildPayload, context: RunFacts) -> None:
        """Take a change of a child run's state."""

    def on_withdrawn(self, agent: AgentFacts, payload: WithdrawnPayload, context: RunFacts) -> None:
        """Drop what the payload names."""

    def on_error(self, agent: AgentFacts, payload: ErrorPayload, context: RunFacts) -> None:
        """Take an error; the run may go on."""

    def on_end(self, agent: AgentFacts, payload: EndPayload, context: RunFacts) -> None:
        """Take the last event of the run; called exactly once for a run that was seen to start."""

    def flush(self) -> None:
        """Called after each batch on the observer's own thread, and (inline ones too) before the process ends."""


_HOOKS = {
    "status": "on_status",
    "response": "on_text",
    "reasoning": "on_reasoning",
    "tool": "on_tool",
    "tool_result": "on_tool_result",
    "approval": "on_approval",
    "message": "on_message",
    "child": "on_child",
    "withdrawn": "on_withdrawn",
    "error": "on_error",
    "end": "on_end",
}
