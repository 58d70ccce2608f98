"""What is wrong with a field, as a sentence with the remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from config.errors import BadRequest
from config.text.names import did_you_mean

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from web.calls.fields import Input

Schema = Mapping[str, Any]
_FORMS = {"string": "text", "boolean": "true or false", "object": "an object", "array": "a list"}


def refusal(kind: str, model: type[Input], error: ValidationError) -> BadRequest:
    """Return the error of the first wrong field; unknown names come first, since a required one may be misspelt."""
    errors = error.errors(include_url=False, include_context=True)
    first = min(errors, key=lambda entry: entry["type"] != "extra_forbidden")
    return BadRequest(_sentence(kind, _schema(model), first))


def unknown(kind: str, name: str, names: Sequence[str]) -> BadRequest:
    """Return the error for a name that is not known."""
    return BadRequest(
        f"there is no {kind} '{name[:80]}' here.{did_you_mean(name[:80], names)} "
        f"Known {kind}s: {', '.join(names) or 'none'}."
    )


def too_long(name: str, chars: int, limit: int) -> BadRequest:
    return BadRequest(f"'{name}' has {chars:,} characters and the limit is {limit:,}.")


def _sentence(kind: str, schema: Schema, error: ErrorDetails) -> str:
    loc = [str(part) for part in error["loc"]]
    path = _as_sent(schema, loc)
    around, subschema = _at(schema, path[:-1]), _at(schema, path)
    name = ".".join(path)[:80]
    field_names = list(around.get("properties", {}))
    if error["type"] == "extra_forbidden" and path == loc:
        return str(unknown(kind, path[-1], field_names))
    if error["type"] == "missing" and path == loc:
        return f"'{name}' is missing. Known {kind}s: {', '.join(field_names)}."
    if error["type"] == "string_too_long":
        return str(too_long(name, len(error["input"]), error["ctx"]["max_length"]))
    return f"'{name}' has to be {_form(path[-1], subschema)}."


def _as_sent(schema: Schema, loc: Sequence[str]) -> Sequence[str]:
    """Return the names in a place up to a field of several forms, behind which Pydantic names the form."""
    depths = (depth for depth in range(len(loc)) if "anyOf" in _at(schema, loc[:depth]))
    return loc[: next(depths, len(loc))]


def _at(schema: Schema, path: Sequence[str]) -> Schema:
    """Return the part of a schema that describes a place in a value."""
    definitions = schema.get("$defs", {})
    for part in path:
        schema = schema.get("properties", {}).get(part, schema.get("items", {}))
        schema = definitions.get(str(schema.get("$ref", "")).rpartition("/")[2], schema)
    return schema


def _form(name: str, schema: Schema) -> str:
    """Return what a value has to be, as its schema says it."""
    if "anyOf" in schema:
        return ", or ".join(dict.fromkeys(_form(name, option) for option in schema["anyOf"]))
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        return f"one of {', '.join(str(option) for option in schema['enum'] if option != '')}"
    if schema.get("type") in ("integer", "number"):
        number = "a whole number" if schema["type"] == "integer" else "a number"
        number += " of seconds" if name.endswith("_s") else ""
        return f"{number} from {schema['minimum']:,} to {schema['maximum']:,}"
    if "pattern" in schema:
        return f"text of the form {schema['pattern']}"
    return _FORMS.get(str(schema.get("type")), "another value") + _size(schema)


def _size(schema: Schema) -> str:
    """Return how long a list or a text has to be, where its schema says it."""
    if "maxItems" in schema:
        return f" of {schema.get('minItems', 0)} to {schema['maxItems']} values"
    return " that is not empty" if schema.get("minItems") or schema.get("minLength") else ""


@cache
def _schema(model: type[Input]) -> Schema:
    return model.model_json_schema()
