"""The section `router:` of an agent's file: which agent gets a message, without a model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from config.definitions.guardrails.checks import CheckSection, check_pattern, spans_of
from config.text.patterns import PatternRefused

PROMPT = (
    "You pass each message on to the agent whose description fits it best, with everything that the agent has to know, "
    "and answer with what it says. Where none fits, say so, and say what the agents can do."
)
"""The system prompt of a router whose file has none: for the messages that no route takes."""
AGENT = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_Word = Annotated[str, Field(min_length=1, max_length=200)]


class Route(CheckSection):
    """Which messages go to which agent; a route without a condition takes every message."""

    contains: tuple[_Word, ...] = ()
    """Words, of which the message has one, in small letters or capitals."""
    matches: str | None = None
    """A regular expression of RE2 that matches somewhere in the message."""
    agent: Annotated[str, Field(pattern=f"^{AGENT.pattern}$")] | None = None
    """The agent that gets the message."""
    capability: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """In place of ``agent``: a tool or a `category_tag`; the first of the file's `agent:` tools with it is taken."""

    @field_validator("contains", mode="before")
    @classmethod
    def _one_word_is_a_list(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("matches")
    @classmethod
    def _is_linear(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                check_pattern(value)
            except PatternRefused as error:
                raise ValueError(f"cannot be used: {error}") from error
        return value

    @model_validator(mode="after")
    def _leads_somewhere(self) -> Route:
        if (self.agent is None) == (self.capability is None):
            raise ValueError("a route needs either `agent:` or `capability:`")
        return self

    def takes(self, text: str) -> bool:
        """Return whether a message fulfils the conditions."""
        small = text.casefold()
        if self.contains and not any(word.casefold() in small for word in self.contains):
            return False
        return self.matches is None or next(spans_of(self.matches, text), None) is not None


def with_routes(data: Any) -> Any:
    """Return the fields of a file with the agents of its routes among the tools, and with a prompt."""
    routes = data.get("router") if isinstance(data, Mapping) else None
    if not isinstance(routes, list | tuple):
        return data
    tools = data.get("tools") or ()
    agents = [str(route.get("agent", "")) for route in routes if isinstance(route, Mapping)]
    lines = [f"agent:{agent}" for agent in dict.fromkeys(agents) if AGENT.fullmatch(agent)]
    lines = [line for line in lines if line not in tools]
    more = {"tools": [*tools, *lines]} if isinstance(tools, list | tuple) else {}
    return {"system_prompt": PROMPT, **data, **more}
