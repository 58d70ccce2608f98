"""Errors of guardrails: what they keep back as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from config.errors import ModelVisible, Permanent, Topic


class InputBlocked(Permanent):
    """A guardrail blocks the input of the run; nothing of it was stored."""

    code = "input_blocked"
    remedy = "Leave out what the reasons name."

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__(
            f"a guardrail refused the input ({'; '.join(reasons)}); leave that out.", reasons=list(reasons)
        )


class OutputBlocked(Permanent):
    """A guardrail blocks what the model wrote; what was blocked was neither stored nor shown."""

    code = "output_blocked"
    topic = Topic.RUN
    over_http = False
    remedy = "The run fails. Ask for an answer without it, or change the agent's `guardrails.output`."

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__(f"the answer is blocked: {'; '.join(reasons)}.", reasons=list(reasons))


class ResultBlocked(ModelVisible):
    """A guardrail blocks the result of a tool; the call was made."""

    code = "result_blocked"
    remedy = "The model continues without it, or asks for less."

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__(f"a guardrail blocks it: {'; '.join(reasons)}.", reasons=list(reasons))


class SecretInArguments(ModelVisible):
    """The model wrote a secret into the arguments of a call; the call was not made."""

    code = "secret_in_arguments"
    remedy = "The tool gets its secrets by reference ([guardrails](guardrails.md#secrets-of-tools))."
    text = (
        "its arguments have a secret, which would be recorded with them; leave it out: a tool gets the secrets that it "
        "needs from the deployment."
    )
