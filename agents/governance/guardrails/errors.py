"""Errors of guardrails: what they keep back as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from config.errors import ModelVisible, Permanent, Topic

INPUT_BLOCKED = Permanent.row(
    "input_blocked",
    "A guardrail blocks the input of the run; nothing of it was stored.",
    remedy="Leave out what the reasons name.",
)


def input_blocked(reasons: Sequence[str]) -> Permanent:
    return INPUT_BLOCKED(
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


RESULT_BLOCKED = ModelVisible.row(
    "result_blocked",
    "A guardrail blocks the result of a tool; the call was made.",
    remedy="The model continues without it, or asks for less.",
)


def result_blocked(reasons: Sequence[str]) -> ModelVisible:
    return RESULT_BLOCKED(f"a guardrail blocks it: {'; '.join(reasons)}.", reasons=list(reasons))


SECRET_IN_ARGUMENTS = ModelVisible.row(
    "secret_in_arguments",
    "The model wrote a secret into the arguments of a call; the call was not made.",
    text=(
        "its arguments have a secret, which would be recorded with them; leave it out: a tool gets the secrets that it "
        "needs from the deployment."
    ),
    remedy="The tool gets its secrets by reference ([guardrails](guardrails.md#secrets-of-tools)).",
)
