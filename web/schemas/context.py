"""Answers about internal events, and what is found by a query."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import TypeAliasType

from bus.journal import RunStatus
from web.calls.fields import Answer, Maybe


class LoggedEvent(Answer):
    """An event that is committed."""

    event_id: str
    created_at: str


class EventFound(Answer):
    """An event that was logged."""

    kind: Literal["event"]
    id: str
    """Its ``event_id``."""
    event_type: str
    source: str
    payload: dict[str, Any]
    principal: str
    """Who logged it."""
    created_at: str


class RunFound(Answer):
    """A run that was started with the correlation id, also as ``correlation_id`` of its metadata."""

    kind: Literal["run"]
    id: str
    """Its ``run_id``."""
    agent: str
    """The id of its agent."""
    status: RunStatus
    principal: str
    """Whom it belongs to."""
    created_at: str


Found = TypeAliasType("Found", EventFound | RunFound)


class QueryResults(Answer):
    """A page of what was found, the newest first."""

    results: list[Found]
    next: Maybe[str] = None
    """Where the next page begins; absent on the last one."""
