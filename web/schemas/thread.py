"""Threads and their messages."""

from __future__ import annotations

from typing import Any, Literal

from bus.journal import RunStatus
from bus.payloads import Outcome
from web.calls.fields import Answer, Maybe


class ThreadSummary(Answer):
    """A conversation."""

    thread_id: str
    title: str
    agent: str
    """The id of the agent that it was begun with."""
    open_run: Maybe[str] = None
    """The run that is at work in it."""
    principal: str
    """Whom it belongs to."""
    private: Maybe[bool] = None
    """True where its agent's definition hides it from the other principals of the tenant."""
    created_at: str
    updated_at: str
    """When it was last used."""


class RunOfThread(Answer):
    """A run of a thread."""

    run_id: str
    status: RunStatus
    reason: Maybe[str] = None
    created_at: str


class Thread(ThreadSummary):
    """A conversation with its runs, the oldest first."""

    runs: list[RunOfThread]


class ThreadPage(Answer):
    """A page of threads, the most recently used first."""

    threads: list[ThreadSummary]
    next: Maybe[str] = None
    """Where the next page begins; absent on the last one."""


class NewThread(Answer):
    """The thread that was created."""

    thread_id: str


class Message(Answer):
    """A message of a thread."""

    number: int
    """Its number in the thread; results of concurrent calls may be stored in any order."""
    turn: int
    """The number of the user's message that it belongs to; messages are in the order (turn, number)."""
    run_id: str
    message_id: str
    role: Literal["user", "assistant", "tool", "error"]
    """``error``: a failure, shown to people and not sent to models."""
    partial: Maybe[bool] = None
    """True where a stop or a failure cut it off."""
    at: str
    content: Maybe[str] = None
    reasoning: Maybe[str] = None
    """What the model thought before."""
    tool_calls: Maybe[list[dict[str, Any]]] = None
    call_id: Maybe[str] = None
    """Of a tool's result: the call it belongs to."""
    name: Maybe[str] = None
    """Of a tool's result: the tool."""
    outcome: Maybe[Outcome] = None
    result: Any = None
    code: Maybe[str] = None
    """Of an error: its code."""


class MessagePage(Answer):
    """A page of messages in reading order."""

    messages: list[Message]
    next: Maybe[str] = None
    """Where the next page begins; absent on the last one."""
