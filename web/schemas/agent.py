"""Agents, and the definitions that cannot be used."""

from __future__ import annotations

from web.calls.fields import Answer


class AgentSummary(Answer):
    """An agent that can be started."""

    id: str
    name: str
    description: str
    model: str
    """The model that the next run gets."""
    is_demo: bool
    """Whether its model is scripted and needs no key."""
    starters: list[str]
    """Messages to begin with."""
    tools: list[str]
    has_output_schema: bool
    """Whether its answers are JSON of a schema."""


class BrokenAgent(Answer):
    """A definition that cannot be used."""

    id: str
    code: str
    detail: str
    """What is wrong, as a sentence with the remedy."""


class AgentList(Answer):
    """The agents that can be started, and the definitions that cannot be used."""

    agents: list[AgentSummary]
    problems: list[BrokenAgent]
