"""A person's answer as it may be recorded: guardrails check it as they check the input of a run."""

from __future__ import annotations

from dataclasses import replace

from bus.journal.approvals import Decision
from config.guardrails.deployment import guardrails_of
from config.guardrails.guardrails import Guardrails
from config.settings import Settings


def guarded(answer: Decision, settings: Settings) -> Decision:
    """Return the answer with its comment and a given result as they may be kept.

    Arguments and a filled-in form are used as they are given, so nothing is replaced in them.

    Raises:
        InputBlocked: they have a secret, or the deployment's guardrails block them, the comment or the result.
    """
    if answer.message is None and answer.result is None and answer.arguments is None:
        return answer
    guardrails = Guardrails(guardrails_of(settings))
    message = guardrails.input(answer.message) if answer.message is not None else None
    if answer.arguments is not None:
        guardrails.require_call(answer.arguments)
    if answer.decision == "answer":
        guardrails.require_call({"answer": answer.result})
        return replace(answer, message=message)
    return replace(answer, message=message, result=guardrails.given(answer.result))
