"""The accepted subset of JSON Schema 2020-12: limited in size, without remote references, compiled once.

Schemas come from definitions, tools and other untrusted sources, so none may fetch, recurse without end, or take time
that grows faster than its size.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, NoReturn

import jsonschema_rs
import orjson

MAX_BYTES = 64 * 1024
"""Largest schema, as JSON."""
MAX_DEPTH = 32
"""Deepest nesting of a schema."""
MAX_BRANCHES = 4096
"""Subschemas that one value may be validated against; `$ref` and `allOf` can double them at each level."""
MAX_CHAIN = 128
"""Longest chain of subschemas that apply to the same value; each costs stack when a schema is walked."""
MAX_ERRORS = 5
"""Most validation errors that are reported at once."""
MAX_VALUES = 100_000
"""Most values in data whose errors are named; the library copies what does not fit, and keeps other threads waiting."""

_DIALECTS = ("https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2020-12/schema#")
_MOVING = ("$ref", "$dynamicRef", "$id", "$anchor", "$dynamicAnchor")
"""Keywords that resolve references. All but plain $ref would bypass the checks below."""
_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_IN_PLACE = ("not", "if", "then", "else")


class SchemaRefused(ValueError):
    """A schema cannot be used; the message does not name the schema."""


def _never(uri: str) -> NoReturn:
    raise ValueError("remote references are not followed")


def check_schema(schema: Mapping[str, Any]) -> None:
    """Check that ``schema`` can be used for validation.

    Raises:
        SchemaRefused: it is too large or deep, not a schema, or refers to something outside itself.
    """
    depth = _depth_of(schema)
    if depth > MAX_DEPTH:
        raise SchemaRefused(f"the schema is nested {depth} levels deep and the limit is {MAX_DEPTH}.")
    size = len(_encode(schema))
    if size > MAX_BYTES:
        raise SchemaRefused(f"the schema has {size:,} bytes and the limit is {MAX_BYTES:,}.")
    if schema.get("$schema", _DIALECTS[0]) not in _DIALECTS:
        raise SchemaRefused(f"$schema has to be {_DIALECTS[0]}, or be left out.")
    for keyword, value in _references(schema):
        if keyword != "$ref":
            raise SchemaRefused(f"{keyword} is not supported inside a schema; use $ref with #/$defs/name.")
        if value != "#" and not value.startswith("#/"):
            raise SchemaRefused(f"$ref {value[:80]!r} is not local; put it under $defs and write #/$defs/name.")
    _check_branches(schema)
    try:
        _compile(_encode(schema))
    except jsonschema_rs.ValidationError as error:
        at = ".".join(str(part) for part in error.instance_path)
        raise SchemaRefused(f"it is not a JSON Schema{f' at {at}' if at else ''}: {error.message[:300]}.") from error
    except ValueError as error:
        raise SchemaRefused(f"it is not a JSON Schema: {str(error)[:300]}.") from error


def schema_errors(schema: Mapping[str, Any], value: Any) -> list[str]:
    """Return the validation errors as readable sentences, at most ``MAX_ERRORS``; empty when ``value`` conforms."""
    validator = compiled(schema)
    if validator.is_valid(value):
        return []
    if _has_more_values(value, MAX_VALUES):
        return [f"there are more than {MAX_VALUES:,} values, too many to name what does not fit"]
    errors = islice(validator.iter_errors(value), MAX_ERRORS)
    return [f"{_path(error.instance_path)}{error.message[:300]}" for error in errors]


def compiled(schema: Mapping[str, Any]) -> jsonschema_rs.Draft202012Validator:
    """Return the validator of ``schema``, made once per process and content."""
    return _compile(_encode(schema))


def _encode(schema: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(schema, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        raise SchemaRefused(f"it is not plain JSON: {error}.") from error


@lru_cache(maxsize=512)
def _compile(schema: bytes) -> jsonschema_rs.Draft202012Validator:
    # RegexOptions is the linear-time engine: no pattern can run for ever.
    return jsonschema_rs.Draft202012Validator(
        orjson.loads(schema), retriever=_never, pattern_options=jsonschema_rs.RegexOptions()
    )


def _path(parts: list[str | int]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).lstrip(".")
    return f"{text}: " if text else ""


def _has_more_values(value: Any, limit: int) -> bool:
    count, waiting = 0, [value]
    while waiting and count <= limit:
        inner = _inside(waiting.pop())
        count += len(inner)
        waiting.extend(inner if count <= limit else ())
    return count > limit


def _depth_of(value: Any) -> int:
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        item, depth = waiting.pop()
        deepest = max(deepest, depth)
        if depth > 1000:
            return depth
        waiting.extend((part, depth + 1) for part in _inside(item))
    return deepest


def _inside(value: Any) -> Collection[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _references(schema: Any) -> Iterator[tuple[str, str]]:
    waiting = [schema]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Mapping):
            # A property may be named $ref; then its value is a schema, not a string.
            keywords = _MOVING if item is not schema else ("$ref", "$dynamicRef")
            yield from ((key, item[key]) for key in keywords if isinstance(item.get(key), str))
        waiting.extend(_inside(item))


def _check_branches(schema: Mapping[str, Any]) -> None:
    """Count the subschemas that one value is validated against, and refuse loops that never descend into the value."""
    counts: dict[int, int] = {}
    open_now: set[int] = set()

    def count(part: Any) -> int:
        if not isinstance(part, Mapping):
            return 1
        if id(part) in open_now:
            raise SchemaRefused("a $ref refers to itself without descending into the value.")
        if id(part) not in counts:
            if len(open_now) == MAX_CHAIN:
                raise SchemaRefused(f"its $ref and allOf follow one another more than {MAX_CHAIN} times; shorten them.")
            open_now.add(id(part))
            counts[id(part)] = 1 + sum(count(inner) for inner in _in_place(part, schema))
            open_now.discard(id(part))
        return counts[id(part)]

    waiting: list[Any] = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping) and count(part) > MAX_BRANCHES:
            raise SchemaRefused("its allOf, anyOf and $ref multiply into too many checks.")
        waiting.extend(_inside(part))


def _in_place(part: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[Any]:
    for key in _IN_PLACE_LISTS:
        inner = part.get(key)
        if isinstance(inner, list):
            yield from inner
    yield from (part[key] for key in _IN_PLACE if key in part)
    dependent = part.get("dependentSchemas")
    if isinstance(dependent, Mapping):
        yield from dependent.values()
    if isinstance(part.get("$ref"), str):
        yield _target(part["$ref"], root)


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
