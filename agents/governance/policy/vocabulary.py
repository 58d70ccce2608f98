"""What the rules of a policy may name: the tools, arguments, labels and agents of a deployment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.governance.policy.matching import ToolNames
from config.definitions.mcp_names import own_names

_COMBINED = ("$ref", "allOf", "anyOf", "oneOf", "patternProperties")
"""Keywords by which a schema may have arguments that its ``properties`` do not list."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownTool:
    """A tool that an agent has, or that is registered."""

    name: str
    identity: str
    """``mcp:server/tool``; empty of a tool of no MCP server."""
    arguments: frozenset[str] | None
    """The names of its arguments; None where its schema leaves them open."""
    labels: frozenset[str]
    """Those of its calls, and of its results."""

    @property
    def names(self) -> frozenset[str]:
        """Those that ``tool`` is in a condition."""
        return frozenset({self.name}).union(own_names(self.identity) if self.identity else ())

    def is_listed(self, names: ToolNames) -> bool:
        """Return whether a rule with these names is about it."""
        return names.has(self.name) or (bool(self.identity) and names.has(self.identity, of_names=True))


@dataclass(frozen=True, kw_only=True, slots=True)
class Vocabulary:
    """All that is known in a deployment."""

    tools: tuple[KnownTool, ...]
    agents: frozenset[str]
    unread: tuple[str, ...] = ()
    """Agents whose tools could not be read, so that more tools may exist."""


def arguments_in(parameters: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the names of the arguments that a schema has; None where it leaves them open."""
    properties, more = parameters.get("properties") or {}, parameters.get("additionalProperties", True)
    is_open = any(keyword in parameters for keyword in _COMBINED) or isinstance(more, dict)
    return None if is_open or (more and not properties) else frozenset(properties)
