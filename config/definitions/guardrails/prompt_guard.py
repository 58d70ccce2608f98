"""The section ``prompt_guard`` of an agent's file: who checks the user's input against the agent's goal."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from config.definitions.guardrails.checks import CheckSection


class PromptGuardFields(CheckSection):
    """A model or a function; a text instead of the mapping is the function."""

    model: Annotated[str, Field(min_length=1)] | None = None
    """A LiteLLM model, or ``auto``. Where its provider is the agent's own, it is asked at the same address, with the
    same key."""
    function: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", max_length=200)] | None = None
    """``package.module:function``, loaded by the rules for tools."""
    timeout_s: Annotated[float, Field(strict=True, gt=0, le=600)] = 10
    """Seconds that a check may take; a run whose check takes longer fails."""

    @model_validator(mode="before")
    @classmethod
    def _named_alone(cls, data: Any) -> Any:
        return {"function": data} if isinstance(data, str) else data

    @model_validator(mode="after")
    def _is_one(self) -> PromptGuardFields:
        if (self.model is None) == (self.function is None):
            raise ValueError("needs either `model` or `function`, for example `prompt_guard: {model: auto}`")
        return self
