"""The accepted subset of JSON Schema 2020-12: limited in size, without remote references, compiled once.

Schemas come from definitions, tools and other untrusted sources, so none may fetch, recurse without end, or take time
that grows faster than its size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from math import inf
from typing import Annotated, Any, NoReturn

import jsonschema_rs
import orjson
from pydantic import AfterValidator

from config.definitions.schemas.schema_work import MAX_PLACES, SchemaWork
from config.definitions.schemas.subschemas import in_place, inside

MAX_ERRORS = 5
"""Most validation errors that are reported at once."""
MAX_COMPARISONS = 5_000_000
"""Values, times the subschemas that one of them may be validated against: less than 0.1 s."""
FEW_BRANCHES = 8
"""So many subschemas stay below that with all values that 1 MiB of JSON can have; then they are not counted."""
MAX_NAMED = 10_000
"""Values, times the cost of an error, up to which several errors are named: the library makes all of them at once."""
MAX_VALUES = 50_000
"""Values of data of which one error is named: the library copies what does not fit, while other threads wait."""
TOO_MUCH_TEXT = (
    "there is more text than the schema's patterns are applied to; shorten it, or write `maxLength` beside a `pattern` "
    "without counted repetitions"
)
MAX_PATTERN_BYTES = 1024 * 1024
"""Largest pattern once it is compiled; `.{1,1000}` and `[a-z]{1,10000}` are smaller."""


def _never(uri: str) -> NoReturn:
    raise ValueError("remote references are not followed")


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaValidator:
    """A schema that was checked, and how much data it is applied to."""

    compiled: jsonschema_rs.Draft202012Validator
    branches: int
    """Subschemas that one value may be validated against."""
    error_cost: int
    """Parts of the schema that errors about one value copy."""
    work: SchemaWork
    """What applying it costs."""

    def errors(self, value: Any) -> list[str]:
        """Return the validation errors as sentences, at most ``MAX_ERRORS``; empty where the value conforms."""
        if self.branches > FEW_BRANCHES and self._has_more(value, MAX_COMPARISONS // self.branches):
            return [f"there are too many values for a schema with {self.branches:,} alternatives"]
        if self.work.is_too_much(value):
            return [TOO_MUCH_TEXT]
        try:
            if self.compiled.is_valid(value):
                return []
        except UnicodeEncodeError:
            return ["half of a surrogate pair is not text"]
        if self.work.is_long_to_explain(value):
            return ["it does not fit; its alternatives are nested too deeply, or its values too many, to name what"]
        if self._has_more(value, MAX_VALUES):
            return [f"there are more than {MAX_VALUES:,} values, too many to name what does not fit"]
        if self._has_more(value, MAX_NAMED // self.error_cost):
            return [_sentence(error) for error in self._first(value)]
        return [_sentence(error) for error in islice(self.compiled.iter_errors(value), MAX_ERRORS)]

    @staticmethod
    def _has_more(value: Any, limit: int) -> bool:
        return count_values(value, limit) > limit

    def _first(self, value: Any) -> list[jsonschema_rs.ValidationError]:
        try:
            self.compiled.validate(value)
        except jsonschema_rs.ValidationError as error:
            return [error]
        return []


def compile_schema(schema: bytes, branches: int, error_cost: int) -> SchemaValidator:
    """Return the validator of a schema written as JSON.

    Raises:
        ValueError, jsonschema_rs.ValidationError: it is not a schema, or has a pattern that is too large.
    """
    parsed = orjson.loads(schema)
    work = SchemaWork(parsed)
    if work.weight > MAX_PLACES:
        raise ValueError(
            f"its patterns have {work.weight:,} places and the limit is {MAX_PLACES:,}; write `maxLength` instead "
            "of a counted repetition"
        )
    compiled = _compiled(parsed, MAX_PATTERN_BYTES)
    return SchemaValidator(compiled=compiled, branches=branches, error_cost=error_cost, work=work)


def _compiled(schema: dict[str, Any], pattern_bytes: int) -> jsonschema_rs.Draft202012Validator:
    # RegexOptions is the engine without backtracking.
    options = jsonschema_rs.RegexOptions(size_limit=pattern_bytes)
    return jsonschema_rs.Draft202012Validator(schema, retriever=_never, pattern_options=options)


def _sentence(error: jsonschema_rs.ValidationError) -> str:
    return f"{_path(error.instance_path)}{error.message[:300]}"


def _path(parts: list[str | int]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).lstrip(".")
    return f"{text}: " if text else ""


def count_values(value: Any, limit: float = inf) -> int:
    """Return how many values there are within ``value``, itself included; above the limit perhaps not all."""
    count, waiting = 1, [value]
    while waiting and count <= limit:
        inner = inside(waiting.pop())
        count += len(inner)
        waiting.extend(inner if count <= limit else ())
    return count


MAX_BYTES = 64 * 1024
"""Largest schema, as JSON."""
MAX_DEPTH = 32
"""Deepest nesting of a schema."""
MAX_BRANCHES = 4096
"""Subschemas that one value may be validated against; `$ref` and `allOf` can double them at each level."""
MAX_CHAIN = 128
"""Longest chain of subschemas that apply to the same value; each costs stack when a schema is walked."""

_DIALECTS = ("https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2020-12/schema#")
_MOVING = ("$ref", "$dynamicRef", "$id", "$dynamicAnchor")
"""Keywords that resolve references. All but plain $ref would bypass the checks below.

An $anchor only names a subschema: it changes nothing, since a $ref to it is refused.
"""
_COPIED = ("enum", "const", "required", "not", "dependentRequired")
"""Keywords whose values an error copies, or of which each may be an error."""


class SchemaRefused(ValueError):
    """A schema cannot be used; the message does not name the schema."""


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
    try:
        compiled(schema)
    except SchemaRefused:
        raise
    except jsonschema_rs.ValidationError as error:
        at = ".".join(str(part) for part in error.instance_path)
        raise SchemaRefused(f"it is not a JSON Schema{f' at {at}' if at else ''}: {error.message[:300]}.") from error
    except ValueError as error:
        raise SchemaRefused(f"it is not a JSON Schema: {str(error)[:300]}.") from error


def defaults_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of the fields at the top of a schema of an object."""
    fields = schema.get("properties") or {}
    return {
        name: field["default"] for name, field in fields.items() if isinstance(field, Mapping) and "default" in field
    }


def schema_errors(schema: Mapping[str, Any], value: Any) -> list[str]:
    """Return the validation errors as readable sentences, at most five; empty when ``value`` conforms.

    Also data that is too much for the schema is an error: see ``SchemaValidator``.
    """
    return compiled(schema).errors(value)


def compiled(schema: Mapping[str, Any]) -> SchemaValidator:
    """Return the validator of ``schema``, made once per process and content."""
    return _compile(_encode(schema))


def _encode(schema: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(schema, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        raise SchemaRefused(f"it is not plain JSON: {error}.") from error


@lru_cache(maxsize=512)
def _compile(schema: bytes) -> SchemaValidator:
    parsed = orjson.loads(schema)
    branches = _most(parsed, lambda part: 1, MAX_BRANCHES)
    return compile_schema(schema, branches, _most(parsed, _copied))


def _depth_of(value: Any) -> int:
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        item, depth = waiting.pop()
        deepest = max(deepest, depth)
        if depth > 1000:
            return depth
        waiting.extend((part, depth + 1) for part in inside(item))
    return deepest


def _references(schema: Any) -> Iterator[tuple[str, str]]:
    waiting = [schema]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Mapping):
            # A property may be named $ref; then its value is a schema, not a string.
            keywords = _MOVING if item is not schema else ("$ref", "$dynamicRef")
            yield from ((key, item[key]) for key in keywords if isinstance(item.get(key), str))
        waiting.extend(inside(item))


def _copied(part: Mapping[str, Any]) -> int:
    """Return how many values of a subschema an error has, or is made for."""
    return 1 + sum(count_values(part[keyword]) for keyword in _COPIED if keyword in part)


def _most(schema: Mapping[str, Any], weigh: Callable[[Mapping[str, Any]], int], limit: float = inf) -> int:
    """Return the greatest weight of all subschemas together that one value is validated against.

    Raises:
        SchemaRefused: it exceeds the limit, or a loop of references never descends into the value.
    """
    weights: dict[int, int] = {}
    open_now: set[int] = set()

    def weight(part: Any) -> int:
        if not isinstance(part, Mapping):
            return 1
        if id(part) in open_now:
            raise SchemaRefused("a $ref refers to itself without descending into the value.")
        if id(part) not in weights:
            if len(open_now) == MAX_CHAIN:
                raise SchemaRefused(f"its $ref and allOf follow one another more than {MAX_CHAIN} times; shorten them.")
            open_now.add(id(part))
            weights[id(part)] = weigh(part) + sum(weight(inner) for inner in in_place(part, schema))
            open_now.discard(id(part))
        return weights[id(part)]

    most, waiting = 1, [schema]
    while waiting:
        part: Any = waiting.pop()
        if isinstance(part, Mapping):
            most = max(most, weight(part))
            if most > limit:
                raise SchemaRefused("its allOf, anyOf and $ref multiply into too many checks.")
        waiting.extend(inside(part))
    return most


def _checked(schema: dict[str, Any]) -> dict[str, Any]:
    try:
        check_schema(schema)
    except SchemaRefused as error:
        raise ValueError(str(error).rstrip(".")) from error
    return schema


JsonSchema = Annotated[dict[str, Any], AfterValidator(_checked)]
"""A field of a definition that is a JSON Schema."""
