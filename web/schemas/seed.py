"""Answers in the dialect of the first orchestrator design."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import TypeAliasType

from bus.journal import RunStatus
from web.calls.fields import Answer, Maybe


class Processed(Answer):
    """The answer of the agent."""

    response: str
    thread_id: str
    correlation_id: Maybe[str] = None
    """The id that the request had."""


class StillProcessing(Answer):
    """A run that takes longer than the request waits."""

    run_id: str
    status: RunStatus
    events_url: str
    """Where its events are."""
    thread_id: str
    correlation_id: Maybe[str] = None


class Thinking(Answer):
    """A piece of the answer."""

    type: Literal["thinking"]
    content: str


class ToolStart(Answer):
    """A tool is called."""

    type: Literal["tool_start"]
    name: str
    args: dict[str, Any]


class ToolResult(Answer):
    """A tool has answered."""

    type: Literal["tool_result"]
    name: str
    result: str


class SeedError(Answer):
    """The run did not succeed."""

    type: Literal["error"]
    code: str
    message: str


class SeedUsage(Answer):
    """What the run used."""

    tokens: int
    """Input and output together."""


class Done(Answer):
    """The last event."""

    type: Literal["done"]
    usage: SeedUsage
    correlation_id: Maybe[str] = None


SeedEvent = TypeAliasType("SeedEvent", Thinking | ToolStart | ToolResult | SeedError | Done)
