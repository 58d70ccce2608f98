"""Schemas from outside as models and people see them: no text of them has hidden characters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from config.definitions.schemas.json_schema import MAX_DEPTH, SchemaRefused
from config.definitions.schemas.subschemas import inside
from config.text.visible import visible

_HEADER = "x-mcp-header"
"""The keyword of an argument that clients of its server repeat in a header; nothing for others who see the schema."""
_VALIDATING = ("enum", "const", "required", "dependentRequired", "pattern", "$ref")
"""Keywords whose texts decide what fits, so that they cannot be written otherwise."""
_BY_NAME = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
"""Keywords with subschemas by names that the server chooses, which may be those of keywords."""


def shown_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without the name of its dialect; where a text validates nothing, its hidden characters are shown.

    Raises:
        SchemaRefused: a name or another text that validates has hidden characters, or the schema is nested too deeply.
    """
    public_schema = _shown(schema, 0)
    assert isinstance(public_schema, dict)
    public_schema.pop("$schema", None)
    return public_schema


def _shown(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise SchemaRefused(f"the schema is nested more than {MAX_DEPTH} levels deep.")
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list):
        return [_shown(item, depth + 1) for item in value]
    if not isinstance(value, Mapping):
        return value
    _require_plain(list(value))
    members = {name: item for name, item in value.items() if name != _HEADER or not isinstance(item, str)}
    return {name: _member(name, item, depth + 1) for name, item in members.items()}


def _member(name: str, item: Any, depth: int) -> Any:
    if name in _VALIDATING:
        _require_plain(item)
        return item
    if name in _BY_NAME and isinstance(item, Mapping):
        _require_plain(list(item))
        return {key: _shown(part, depth + 1) for key, part in item.items()}
    return _shown(item, depth)


def _require_plain(value: Any) -> None:
    """Return if no text within a value has hidden characters, other than those of line ends.

    Raises:
        SchemaRefused: one has them.
    """
    waiting = [value]
    while waiting:
        node = waiting.pop()
        waiting += [*inside(node), *(node if isinstance(node, Mapping) else ())]
        text = node.replace("\r", "") if isinstance(node, str) else ""
        if visible(text) != text:
            raise SchemaRefused(f"'{visible(text)[:80]}' has hidden characters, and decides which arguments fit.")
