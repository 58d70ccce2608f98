"""What became of one call of a tool."""

from __future__ import annotations

from typing import Any, Literal

from web.calls.fields import Answer, Maybe


class Executed(Answer):
    """A call that has ended."""

    status: Literal["succeeded", "failed", "cancelled", "dead"]
    """``failed``: the tool was called and failed; ``cancelled``: the run was stopped."""
    execution_time_ms: float
    """Milliseconds from when a worker took the call until its end."""
    run_id: str
    """The run that made the call."""
    output: Maybe[Any] = None
    """The tool's result; absent where it has none."""
    code: Maybe[str] = None
    """Of the error, where it did not succeed."""
    error: Maybe[str] = None
    """The error, as a sentence."""
    correlation_id: Maybe[str] = None
    """The id that the request had."""


class StillExecuting(Answer):
    """A call that takes longer than the request waits, or that waits for a person."""

    status: Literal["queued", "running", "waiting"]
    execution_time_ms: float
    """0: the call has not ended."""
    run_id: str
    events_url: str
    """Where its events are."""
    code: Maybe[Literal["approval_required"]] = None
    """``approval_required``: a person has to approve the call, or to say what became of it, before it continues."""
    approval_id: Maybe[str] = None
    """The question to answer, with ``POST /v1/runs/{run_id}/approvals/{approval_id}``."""
    reason: Maybe[str] = None
    """Why a person is asked, as a sentence."""
    correlation_id: Maybe[str] = None
    """The id that the request had."""
