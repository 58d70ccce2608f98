"""The section `compaction:` of an agent's file: when long threads are summarised, and what summaries keep."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from config.definitions.guardrails.checks import CheckSection
from config.text.visible import first_hidden


def _can_begin_a_line(value: str) -> str:
    if ":" in value or value != value.strip() or first_hidden(value.replace("\n", "\0")) is not None:
        raise ValueError("has to be the name of a fact, without ':', hidden characters, line ends and blanks around it")
    return value


_Name = Annotated[str, Field(min_length=1, max_length=80), AfterValidator(_can_begin_a_line)]


class Compaction(CheckSection):
    """When a thread that has grown long is summarised, and what each summary keeps word for word."""

    enabled: Annotated[bool, Field(strict=True)] = True
    """Whether it is, and whether summaries that are there are used."""
    at: Annotated[float, Field(strict=True, ge=0.1, le=1)] = 0.7
    """From which share of what the model can be shown on."""
    turns: Annotated[int, Field(strict=True, ge=4, le=100_000)] = 250
    """From how many turns on that no summary replaces."""
    pinned: Annotated[tuple[_Name, ...], Field(max_length=20)] = ()
    """Names of facts that each summary has word for word, where the conversation has them."""
