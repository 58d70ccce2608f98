"""What a guardrail says of one text or one piece of data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from config.redacted_data import Detection


@dataclass(frozen=True, kw_only=True, slots=True)
class GuardrailResult:
    """The outcome of the checks."""

    input_type: Literal["run_input", "tool_output", "tool_arguments", "model_text"]
    redacted_input: Any
    """What may be kept: without what was found, where ``validation_passed``."""
    validation_passed: bool
    """Whether no check blocks it."""
    reasons: tuple[str, ...] = ()
    """What was found: ``redacted: secrets``, ``blocked: email``; never the text itself."""

    @property
    def is_redacted(self) -> bool:
        return self.validation_passed and bool(self.reasons)


def reasons_of(found: Iterable[Detection]) -> tuple[str, ...]:
    """Return each finding once, as a reason."""
    return tuple(dict.fromkeys(f"{_DONE[one.action]}: {one.name}" for one in found))


def blocks(found: Iterable[Detection]) -> bool:
    """Return whether one of the checks that found something blocks."""
    return any(one.action == "block" for one in found)


_DONE = {"redact": "redacted", "block": "blocked"}
