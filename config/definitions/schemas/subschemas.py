"""The parts of a JSON Schema, and of the data that it is applied to."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_IN_PLACE = ("not", "if", "then", "else")


def inside(value: Any) -> Collection[Any]:
    """Return the values within an object or a list; nothing of others."""
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def in_place(part: Mapping[str, Any], root: Mapping[str, Any], *, only_references: bool = False) -> Iterator[Any]:
    """Yield the subschemas that apply to the same value as ``part``, or only what it refers to."""
    if isinstance(part.get("$ref"), str):
        yield _target(part["$ref"], root)
    if only_references:
        return
    for key in _IN_PLACE_LISTS:
        inner = part.get(key)
        if isinstance(inner, list):
            yield from inner
    yield from (part[key] for key in _IN_PLACE if key in part)
    dependent = part.get("dependentSchemas")
    if isinstance(dependent, Mapping):
        yield from dependent.values()


def _target(reference: str, root: Any) -> Any:
    """Return the target of a local pointer; None for a dead one, which compiling reports."""
    at = root
    for step in reference[2:].split("/") if len(reference) > 1 else ():
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(at, Mapping) and step in at:
            at = at[step]
        elif isinstance(at, list) and step.isdigit() and int(step) < len(at):
            at = at[int(step)]
        else:
            return None
    return at
