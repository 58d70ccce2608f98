"""The tools on offer, as the demo model sees them: what a provider is told, and whether a call changes anything."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agents.models.demo.filling import shape_of
from agents.tools.tool import Effect

if TYPE_CHECKING:
    from agents.models.call import ModelCall

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """One tool."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any]
    """JSON Schema of the arguments."""
    has_effect: bool = True
    """Whether a call may change something; False for ``pure`` tools only."""

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the name."""
        return words_of(self.name)

    @property
    def arguments(self) -> Mapping[str, Mapping[str, Any]]:
        """The schema of each argument by name, without references."""
        found = self.parameters.get("properties")
        known = found if isinstance(found, Mapping) else {}
        return {str(name): shape_of(schema, self.parameters) for name, schema in known.items()}

    @property
    def required(self) -> tuple[str, ...]:
        """The arguments a call has to have."""
        named = self.parameters.get("required")
        return tuple(name for name in named if name in self.arguments) if isinstance(named, list | tuple) else ()


def offers_of(call: ModelCall) -> dict[str, Offer]:
    """Return the tools ``call`` may use, by name."""
    if call.tool_choice == "none":
        return {}
    functions = (tool.get("function") or {} for tool in call.tools or ())
    return {
        str(function["name"]): Offer(
            name=str(function["name"]),
            description=str(function.get("description") or ""),
            parameters=function.get("parameters") or {},
            has_effect=call.effects.get(str(function["name"])) is not Effect.PURE,
        )
        for function in functions
        if function.get("name")
    }


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of an identifier in lower case: ``lookup_order`` and ``lookupOrder`` have two."""
    return tuple(word.lower() for word in _WORD.findall(name))


def stem(word: str) -> str:
    """Return a word without a plural's ending, in lower case."""
    lower = word.lower()
    return lower[:-1] if len(lower) > 3 and lower.endswith("s") and not lower.endswith("ss") else lower
