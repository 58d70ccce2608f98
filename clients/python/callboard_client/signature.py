"""Reads from a function's signature and docstring what it takes and returns, as JSON Schema."""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)
from uuid import UUID

PLAIN: Mapping[Any, Mapping[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    time: {"type": "string", "format": "time"},
    UUID: {"type": "string", "format": "uuid"},
    Decimal: {"type": "string"},
}
"""Types without parts, and their schemas."""
ANYTHING: tuple[Any, ...] = (Any, inspect.Parameter.empty, object)
"""Types of which every value is one."""
_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Raises|Yields|Examples?|Notes?):\s*$")
_ARGUMENT = re.compile(r"^(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")


class Undescribed(ValueError):
    """A function cannot be called with keyword arguments alone, or a type of it has no JSON Schema."""


def arguments_schema(
    function: Callable[..., Any], name: str, described: Mapping[str, str], *, has_dataclasses: bool = False
) -> dict[str, Any]:
    """Return the JSON Schema of the keyword arguments of ``function``, which messages call ``name``.

    ``described``: what a docstring says of the arguments, by their names. ``has_dataclasses``: as for ``Types``.

    Raises:
        Undescribed: the message names the argument and what to change.
    """
    hints, parameters = read_hints(function, name), inspect.signature(function).parameters.values()
    types_ = Types(name, has_dataclasses=has_dataclasses)
    properties: dict[str, Any] = {}
    required, is_open = [], False
    for parameter in parameters:
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise Undescribed(f"{name}: takes {parameter.name} by position only; remove the '/'")
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            is_open |= parameter.kind is parameter.VAR_KEYWORD
            continue
        parameter_schema = types_.schema(hints.get(parameter.name, Any), parameter.name)
        if parameter.name in described:
            parameter_schema["description"] = described[parameter.name]
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        elif isinstance(parameter.default, str | int | float | bool | None):
            parameter_schema["default"] = parameter.default
        properties[parameter.name] = parameter_schema
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": is_open}
    return schema | types_.definitions_member


def read_hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    """Return the types of a function's arguments, and with the key ``return`` that of its result.

    Raises:
        Undescribed: its signature or an annotation of it cannot be read.
    """
    try:
        inspect.signature(function)
        return get_type_hints(function, include_extras=True)
    except Exception as error:  # evaluates the annotations, which may raise anything
        raise Undescribed(f"{name}: its signature cannot be read ({error})") from error


class Types:
    """The JSON Schemas of types, with the named parts that they refer to.

    ``name``: what messages call the function. ``has_dataclasses``: whether its caller makes dataclasses of objects.
    ``is_result``: whether the values leave the function; a pydantic model may write them in another form.
    """

    def __init__(self, name: str, *, has_dataclasses: bool = False, is_result: bool = False) -> None:
        self.definitions: dict[str, Any] = {}
        self._name = name
        self._has_dataclasses = has_dataclasses
        self._is_result = is_result
        self._around: list[Any] = []
        """The classes whose fields are being described, the outermost first."""

    @property
    def definitions_member(self) -> dict[str, Any]:
        """The member ``$defs`` of the schema around them, where there are named parts."""
        return {"$defs": self.definitions} if self.definitions else {}

    def schema(self, hint: Any, where: str) -> dict[str, Any]:
        """Return the JSON Schema of a type.

        Raises:
            Undescribed: it has none; the message says that it is the type of ``where``.
        """
        origin, inside = get_origin(hint), get_args(hint)
        if hint in ANYTHING:
            return {}
        if isinstance(hint, type) and hint in PLAIN:
            return dict(PLAIN[hint])
        if origin in (Required, NotRequired):
            return self.schema(inside[0], where)
        if origin is Annotated:
            notes = [note for note in inside[1:] if isinstance(note, str)]
            return self.schema(inside[0], where) | ({"description": notes[0]} if notes else {})
        if origin is Literal:
            return {"enum": list(inside)}
        if origin in (Union, types.UnionType):
            return {"anyOf": [self.schema(argument, where) for argument in inside]}
        if isinstance(hint, type) and issubclass(hint, Enum):
            return {"enum": [member.value for member in hint]}
        if hasattr(hint, "model_json_schema"):  # a pydantic model
            return self._of_model(hint)
        if is_typeddict(hint):
            fields = self._of_fields(hint, where)
            return {"type": "object", "properties": fields, "required": sorted(required_keys(hint))}
        if self._has_dataclasses and isinstance(hint, type) and dataclasses.is_dataclass(hint):
            return self._of_dataclass(hint, where)
        return self._of_collection(origin or hint, inside, where)

    def _of_fields(self, kind: Any, where: str) -> dict[str, Any]:
        if kind in self._around:
            raise Undescribed(f"{self._name}: {where} has a type that contains itself; use dict or a pydantic model")
        self._around.append(kind)
        fields = {name: self.schema(hint, where) for name, hint in get_type_hints(kind, include_extras=True).items()}
        self._around.pop()
        return fields

    def _of_dataclass(self, kind: Any, where: str) -> dict[str, Any]:
        own = [field for field in dataclasses.fields(kind) if field.init or self._is_result]
        described = self._of_fields(kind, where)
        needed = [field.name for field in own if self._is_result or is_required(field)]
        fields = {field.name: described[field.name] for field in own}
        return {"type": "object", "properties": fields, "required": needed, "additionalProperties": False}

    def _of_model(self, model: Any) -> dict[str, Any]:
        mode = "serialization" if self._is_result else "validation"
        schema: dict[str, Any] = model.model_json_schema(mode=mode)
        self.definitions |= schema.pop("$defs", {})
        return schema

    def _of_collection(self, kind: Any, inside: tuple[Any, ...], where: str) -> dict[str, Any]:
        if isinstance(kind, type) and issubclass(kind, Mapping):
            return {"type": "object"} | ({"additionalProperties": self.schema(inside[1], where)} if inside else {})
        if isinstance(kind, type) and issubclass(kind, Iterable) and kind is not bytes:
            items = [hint for hint in inside if hint is not Ellipsis]
            return {"type": "array"} | ({"items": self.schema(items[0], where)} if len(items) == 1 else {})
        raise Undescribed(
            f"{self._name}: {where} has a type without a JSON Schema; use str, int, float, bool, list or dict"
        )


def required_keys(kind: Any) -> set[str]:
    """Return the keys that a TypedDict cannot be without.

    ``__required_keys__`` does not see the marks of a module with ``from __future__ import annotations``.
    """
    origins = {name: get_origin(hint) for name, hint in get_type_hints(kind, include_extras=True).items()}
    marked = {name for name, origin in origins.items() if origin is Required}
    return (set(kind.__required_keys__) | marked) - {name for name, origin in origins.items() if origin is NotRequired}


def is_required(field: dataclasses.Field[Any]) -> bool:
    """Return whether a dataclass cannot be made without this field."""
    return field.init and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return what stands before the first section, and the arguments' descriptions of a section ``Args:``."""
    before: list[str] = []
    arguments: dict[str, str] = {}
    section, name = "", ""
    for line in text.splitlines():
        heading = _SECTION.match(line)
        if heading is not None:
            section = heading[1]
        elif not section:
            before.append(line)
        elif section in ("Args", "Arguments", "Parameters") and line.strip():
            match = _ARGUMENT.match(line.strip())
            if match is not None:
                name, arguments[match[1]] = match[1], match[2]
            elif name:
                arguments[name] += f" {line.strip()}"
    return "\n".join(before).strip(), arguments
