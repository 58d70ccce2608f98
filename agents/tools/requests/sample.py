"""A model's answer that a tool wants during its call, from the model of the run's agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleRequest:
    """What the model is asked; all of its texts are a stranger's."""

    messages: Sequence[Mapping[str, str]]
    """``role`` (user or assistant) and ``content`` of each."""
    instructions: str = ""
    """What the stranger would have the model keep to."""
    max_tokens: int
    temperature: float | None = None
    stop: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleAnswer:
    """What the model answered."""

    text: str
    model: str
    is_cut: bool
    """Whether it reached ``max_tokens``."""


Sample = Callable[[SampleRequest], Awaitable[SampleAnswer]]
"""Asks the run's model: under its policy, its guardrails and its limits.

Raises:
    CallboardError: the model was not asked, or did not answer.
"""
