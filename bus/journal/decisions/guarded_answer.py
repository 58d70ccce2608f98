"""A person's answer as it may be recorded: guardrails check it as they check the input of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from bus.journal.approvals import Decision


class Guard(Protocol):
    """Checks what a person gives to a run, and raises what the interfaces report; safe for any thread."""

    def input(self, text: str) -> str:
        """Return a text as it may be kept."""
        ...

    def given(self, value: Any) -> Any:
        """Return JSON data as it may be kept."""
        ...

    def require_call(self, arguments: Mapping[str, Any]) -> None:
        """Return if arguments may be kept as they are."""
        ...


def guarded(answer: Decision, guard: Guard) -> Decision:
    """Return the answer with its comment and a given result as they may be kept.

    Arguments and a filled-in form are used as they are given, so nothing is replaced in them.

    Raises:
        INPUT_BLOCKED: they have a secret, or the guard blocks them, the comment or the result.
    """
    if answer.message is None and answer.result is None and answer.arguments is None:
        return answer
    message = guard.input(answer.message) if answer.message is not None else None
    if answer.arguments is not None:
        guard.require_call(answer.arguments)
    if answer.decision == "answer":
        guard.require_call({"answer": answer.result})
        return replace(answer, message=message)
    return replace(answer, message=message, result=guard.given(answer.result))
