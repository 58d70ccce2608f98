"""The names by which models call the tools of MCP servers: decided when a tool is first seen, and kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from config.definitions.mcp_names import identity_of, names_for_models

Origin = tuple[str, str]
"""A server, and the name of its tool there."""
_NEVER: Mapping[Origin, int] = MappingProxyType({})


def names_of(tools: Sequence[tuple[str, Origin | None]], first_seen: Mapping[Origin, int] = _NEVER) -> list[str]:
    """Return the name of each tool, which is given by its present name and its origin (None: of no MCP server).

    A tool of no MCP server keeps its name. Of MCP servers' tools with one name the one that was seen first has it; the
    others get their server's name before it, and where that is another tool's, also a digest of their origin. So a
    tool that is listed later takes no name away. ``first_seen`` also has the tools that are absent at present,
    whose names no tool gets. The order of ``tools`` does not matter, and the same tool twice has one name.
    """
    never = float("inf")
    origins = {origin for _, origin in tools if origin is not None} | set(first_seen)
    taken = {name for name, origin in tools if origin is None}
    names: dict[Origin, str] = {}
    for origin in sorted(origins, key=lambda one: (first_seen.get(one, never), one)):
        names[origin] = next(name for name in names_for_models(identity_of(*origin)) if name not in taken)
        taken.add(names[origin])
    return [name if origin is None else names[origin] for name, origin in tools]
