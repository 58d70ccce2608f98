"""A compiled JSON Schema, with limits on the data it is applied to, so that no pair of both takes long.

Two products grow: a value is compared with each of its alternatives, and a text with each position of a pattern. The
library has no time limit, so both products are limited before it is called.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import Any, NoReturn

import jsonschema_rs
import orjson

from config.definitions.schemas.schema_work import MAX_PLACES, SchemaWork
from config.definitions.schemas.subschemas import inside

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
