"""What the server answers about threads and their messages, as typed records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from callboard_client.records import Record


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadRun(Record):
    """A run of a thread, in short."""

    run_id: str
    status: str
    reason: str | None = None
    created_at: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Thread(Record):
    """A conversation."""

    thread_id: str
    title: str = ""
    agent: str = ""
    open_run: str | None = None
    """The run that is at work in it."""
    principal: str = ""
    private: bool = False
    forked_from: str | None = None
    """The thread whose beginning it has."""
    forked_at: int | None = None
    """With ``forked_from``: the last message that they share."""
    created_at: str = ""
    updated_at: str = ""

    @property
    def runs(self) -> list[ThreadRun]:
        """The thread's runs, the oldest first; a list of threads does not have them."""
        return [ThreadRun.of(entry) for entry in self.raw.get("runs", ())]


@dataclass(frozen=True, kw_only=True, slots=True)
class ForkedThread(Record):
    """A thread that begins with messages of another one."""

    thread_id: str
    forked_from: str
    """The thread whose messages it has."""
    at: int
    """The number of the last message that was copied, which may be an earlier one than was named; 0: none was."""
    messages: int
    """How many were copied."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueuedMessage(Record):
    """A message that waits in a thread."""

    kind: str
    """``message``, or ``steer``: a text for the thread's open run, which its model has not got."""
    run_id: str
    """The run that it begins, or that it is for."""
    content: str
    at: str
    """When it was sent."""
    agent: str | None = None
    control_id: str | None = None
    """Of a steer."""
    by: str | None = None
    """Who sent the steer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Message(Record):
    """A message of a thread."""

    message_id: str
    role: str
    run_id: str = ""
    turn: int = 0
    number: int = 0
    content: Any = None
    control_id: str | None = None
    """Of a text that a client gave an open run: the control by which."""
    undone: bool = False
    """Whether its turn was undone: no model gets it again."""
    reasoning: str | None = None
    tool_calls: Sequence[Mapping[str, Any]] | None = None
    call_id: str | None = None
    """Of a tool's result: the call it belongs to."""
    name: str | None = None
    outcome: str | None = None
    result: Any = None
    code: str | None = None
    """Of an error: its code."""
    partial: bool = False
    """True where the message was cut off by a stop or a failure."""
    validation: Mapping[str, Any] | None = None
    """Of the answer to an input that the agent's prompt guard refused: the verdict."""
    at: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary(Record):
    """What models are given in place of old messages of a thread. The messages stay."""

    summary_id: str
    agent: str = ""
    """The id of the agent whose model wrote it, and is given it."""
    from_number: int = 0
    """The number of the first message that it replaces."""
    upto_number: int = 0
    """The number of the last one."""
    text: str = ""
    pinned: Mapping[str, str] = field(default_factory=dict)
    """The facts that the agent's definition pins, by their names."""
    calls: Sequence[str] = ()
    """Calls of tools with their arguments, ids and outcomes, a line each; the newest that fit."""
    left_out: int = 0
    """How many calls before these did not fit."""
    model: str = ""
    usage: Mapping[str, int] | None = None
    cost_usd: float | None = None
    created_at: str = ""
    used_by: str | None = None
    """The id of the first run that was given it; None before that."""
    dropped_at: str | None = None
    """When a person let it count no more; None where it counts."""
    dropped_by: str | None = None
