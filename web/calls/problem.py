"""The body of every error."""

from __future__ import annotations

from pydantic import ConfigDict

from web.calls.fields import Answer, Maybe


class ProblemDetails(Answer):
    """What is wrong and what to do (RFC 9457), with facts such as ``run_id`` as further fields."""

    model_config = ConfigDict(extra="allow")

    type: str
    """``urn:callboard:problem:`` and the code."""
    title: str
    status: int
    code: str
    """Stable across releases; programs compare this."""
    detail: str
    """A sentence: what is wrong, the fact, the remedy."""
    retryable: bool
    """Whether the same request may succeed later, unchanged; then ``Retry-After`` says when to try again."""
    trace_id: Maybe[str] = None
    """The request's trace id, also in the header ``X-Trace-Id`` and in the server's log."""
