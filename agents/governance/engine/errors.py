"""Errors of the remote governance engine."""

from __future__ import annotations

from config.errors import Permanent, Retryable, Topic


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


class EngineInputCut(Permanent):
    """The governance engine was shown a part of a call, because all of it is too long for one event.

    It may refuse the call. Any other answer counts as none: `CALLBOARD_GOVERNANCE_POLICY` decides what becomes of the
    call.
    """

    code = "governance_input_cut"
    topic = Topic.RUN
    over_http = False
    text = "the governance engine cannot allow what it did not see: {problem}."
    remedy = (
        "An event says that a call was made all the same; a refused call says so in its result. Use shorter texts, for "
        "example a tool that takes the name of a file ([governance](governance.md#when-an-event-is-cut))."
    )

    def __init__(self) -> None:
        super().__init__(problem="it was shown in part, because the text or the data is too long for one event")


NoUsableAnswer = EngineUnavailable | EngineInputCut
"""Why the operator's setting decides in place of the engine."""
