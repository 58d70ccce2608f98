"""Errors of the remote governance engine."""

from __future__ import annotations

from config.errors import Retryable, Topic


class EngineUnavailable(Retryable):
    """The governance engine gave no usable answer.

    What becomes of the call is decided by `CALLBOARD_GOVERNANCE_POLICY`.
    """

    code = "governance_unavailable"
    topic = Topic.RUN
    over_http = False
    text = "the governance engine gave no usable answer: {problem}."
    remedy = (
        "An event says that a call was made without the engine's answer; a refused call says so in its result. Look at "
        "the engine, and at `CALLBOARD_GOVERNANCE_POLICY` ([governance](governance.md))."
    )
