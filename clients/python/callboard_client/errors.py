"""The errors of the client; each says what is wrong and what to do, and none contains the API key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TEMPORARY = frozenset({429, 502, 503, 504})
"""Statuses of a proxy whose server has no room or is being restarted."""


class CallboardError(Exception):
    """The base of all errors of the client."""

    retryable: bool = False
    """Whether the same request may succeed later, unchanged."""
    retry_after_s: float | None = None
    """Seconds that the server wants to be left alone."""
    may_have_arrived: bool = False
    """Whether the server may have done what was asked."""


class Unreachable(CallboardError):
    """No connection to the server, or none that lasted until it had answered."""

    retryable = True

    def __init__(self, address: str, problem: str, may_have_arrived: bool = False) -> None:
        super().__init__(address, problem, may_have_arrived)
        self.address = address
        self.may_have_arrived = may_have_arrived

    def __str__(self) -> str:
        address, problem, _ = self.args
        return (
            f"Callboard at {address} does not answer: {problem}. Start it there (./callboard up), or correct base_url."
        )


class UnexpectedAnswer(CallboardError):
    """The answer is not one of Callboard's."""

    def __init__(self, address: str, problem: str) -> None:
        super().__init__(address, problem)
        self.address = address

    def __str__(self) -> str:
        address, problem = self.args
        return f"{address} does not answer as Callboard does: {problem}. Check base_url."


class RequestRefused(CallboardError):
    """The server refused a request; ``code`` is stable, the text is for people."""

    def __init__(self, status: int, problem: Mapping[str, Any], retry_after_s: float | None = None) -> None:
        """``problem``: the body of the answer, or nothing where it is not Callboard's."""
        super().__init__(status, dict(problem), retry_after_s)
        self.status = status
        self.code = str(problem.get("code") or f"http_{status}")
        self.detail = str(problem.get("detail") or _NO_REASON)
        self.facts = {name: value for name, value in problem.items() if name not in _OF_EVERY_PROBLEM}
        """What the problem says besides, such as ``agent_id``."""
        self.retry_after_s = retry_after_s
        trace_id = problem.get("trace_id")
        self.trace_id = trace_id if isinstance(trace_id, str) else None
        """Under which the server's log has the request; None where the answer is not Callboard's."""
        retryable = problem.get("retryable")
        self.retryable = retryable if isinstance(retryable, bool) else status in TEMPORARY
        self.may_have_arrived = status in TEMPORARY and status != 429

    def __str__(self) -> str:
        return f"{self.detail} ({self.code}, HTTP {self.status})"


_NO_REASON = "the answer is that of a proxy or another server, not of Callboard; check base_url"
_OF_EVERY_PROBLEM = frozenset({"type", "title", "status", "code", "detail", "retryable", "trace_id"})
