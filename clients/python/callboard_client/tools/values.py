"""Makes of JSON data the values that a function's types name, and JSON data of what it returns."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Iterable, Mapping, Set
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints
from typing import is_typeddict as is_typed_dict
from uuid import UUID

from callboard_client.signature import ANYTHING, is_required, required_keys

MAX_TEXT = 80
"""Characters of a value that a message quotes."""
_TEXT_FORMS: Mapping[Any, tuple[Any, str]] = {
    datetime: (datetime.fromisoformat, "a date and time such as 2026-11-23T12:00:00Z"),
    date: (date.fromisoformat, "a date such as 2026-11-23"),
    time: (time.fromisoformat, "a time such as 12:00:00"),
    UUID: (UUID, "a UUID"),
    Decimal: (Decimal, "a decimal number as text, such as '12.50'"),
}
_SEQUENCES: Mapping[Any, Any] = {tuple: tuple, set: set, frozenset: frozenset}
"""What a list becomes; all other collections are a list."""


class Misfit(ValueError):
    """A value does not fit its type; the message names the place and what is expected there."""


def from_json(hint: Any, value: Any, where: str) -> Any:
    """Return the value of the type ``hint`` that ``value``, JSON data, stands for.

    Raises:
        Misfit: it stands for none; the message says so of ``where``.
    """
    origin, inside = get_origin(hint), get_args(hint)
    if hint in ANYTHING:
        return value
    if origin in (Annotated, Required, NotRequired):
        return from_json(inside[0], value, where)
    if origin is Literal:
        return _chosen(inside, inside, value, where)
    if origin in (Union, types.UnionType):
        return _of_union(inside, value, where)
    if isinstance(hint, type) and issubclass(hint, Enum):
        members = list(hint)
        return _chosen([member.value for member in members], members, value, where)
    if hasattr(hint, "model_validate"):
        return _of_model(hint, value, where)
    if is_typed_dict(hint):
        return _of_object(get_type_hints(hint, include_extras=True), required_keys(hint), value, where, is_open=True)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _of_dataclass(hint, value, where)
    return _of_collection(origin or hint, inside, value, where)


def _of_collection(kind: Any, inside: tuple[Any, ...], value: Any, where: str) -> Any:
    if kind in _TEXT_FORMS or kind in _SCALARS:
        return _of_scalar(kind, value, where)
    if issubclass(kind, Mapping):
        if not isinstance(value, dict):
            raise _misfit(where, "an object", value)
        hint = inside[1] if inside else Any
        return {name: from_json(hint, member, f"{where}.{name}") for name, member in value.items()}
    if not isinstance(value, list):
        raise _misfit(where, "a list", value)
    if kind is tuple and inside and Ellipsis not in inside:
        if len(value) != len(inside):
            raise _misfit(where, f"a list of {len(inside)} values", value)
        hints = inside
    else:
        hints = (inside[0] if inside else Any,) * len(value)
    items = [
        from_json(hint, member, f"{where}[{n}]") for n, (hint, member) in enumerate(zip(hints, value, strict=True))
    ]
    try:
        return _SEQUENCES.get(kind, list)(items)
    except TypeError:  # unhashable
        raise _misfit(where, "a list of simple values", value) from None


def _of_scalar(kind: Any, value: Any, where: str) -> Any:
    if kind in _TEXT_FORMS:
        make, expected = _TEXT_FORMS[kind]
        if not isinstance(value, str):
            raise _misfit(where, expected, value)
        try:
            return make(value)
        except (ValueError, InvalidOperation):
            raise _misfit(where, expected, value) from None
    expected, fits = _SCALARS[kind]
    if not fits(value):
        raise _misfit(where, expected, value)
    try:
        return kind(value) if kind in (int, float) else value
    except OverflowError:
        raise _misfit(where, expected, value) from None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_SCALARS: Mapping[Any, tuple[str, Any]] = {
    str: ("text", lambda value: isinstance(value, str)),
    bool: ("true or false", lambda value: isinstance(value, bool)),
    int: ("a whole number", lambda value: _is_number(value) and value == value // 1),
    float: ("a number", _is_number),
    type(None): ("null", lambda value: value is None),
}


def _chosen(options: Iterable[Any], values: Iterable[Any], value: Any, where: str) -> Any:
    """Return the one of ``values`` whose option is ``value``: of the same type, since true is not 1."""
    for option, chosen in zip(options, values, strict=True):
        if type(option) is type(value) and option == value:
            return chosen
    raise _misfit(where, "one of " + ", ".join(repr(option) for option in options), value)


def _of_union(hints: tuple[Any, ...], value: Any, where: str) -> Any:
    misfits = []
    for hint in hints:
        try:
            return from_json(hint, value, where)
        except Misfit as error:
            misfits.append((hint, error))
    named = [error for hint, error in misfits if hint is not type(None)]
    if len(named) == 1:
        raise named[0]
    raise Misfit("; or ".join(str(error) for error in named))


def _of_model(model: Any, value: Any, where: str) -> Any:
    try:
        return model.model_validate(value)
    except ValueError as error:  # pydantic's own is one; it is not imported here
        listed = error.errors(include_url=False) if hasattr(error, "errors") else []
        texts = [f"{'.'.join(map(str, (where, *entry['loc'])))}: {entry['msg']}" for entry in listed]
        raise Misfit("; ".join(texts) or f"{where}: {error}") from error


def _of_dataclass(kind: Any, value: Any, where: str) -> Any:
    own = [field for field in dataclasses.fields(kind) if field.init]
    hints = get_type_hints(kind, include_extras=True)
    required = [field.name for field in own if is_required(field)]
    arguments = _of_object({field.name: hints[field.name] for field in own}, required, value, where, is_open=False)
    try:
        return kind(**arguments)
    except ValueError as error:  # of its __post_init__
        raise Misfit(f"{where}: {error}") from error


def _of_object(
    hints: Mapping[str, Any], required: Iterable[str], value: Any, where: str, *, is_open: bool
) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _misfit(where, "an object", value)
    return fields_from_json(hints, required, value, f"{where}.", is_open=is_open)


def fields_from_json(
    hints: Mapping[str, Any], required: Iterable[str], data: Mapping[str, Any], prefix: str, *, is_open: bool
) -> dict[str, Any]:
    """Return the fields of an object as values of their types; those without a type as they came, where it is open.

    Raises:
        Misfit: one lacks, is unknown, or does not fit. The message names each of them.
    """
    problems = [f"{prefix}{name} is missing" for name in required if name not in data]
    if not is_open:
        unknown = [name for name in data if name not in hints]
        problems += [f"there is no {prefix}{_quoted(name)}; known: {', '.join(hints) or 'none'}" for name in unknown]
    result: dict[str, Any] = {}
    for name, value in data.items():
        try:
            result[name] = from_json(hints.get(name, Any), value, f"{prefix}{name}")
        except Misfit as error:
            problems.append(str(error))
    if problems:
        raise Misfit("; ".join(problems))
    return result


def to_json(value: Any) -> Any:
    """Return ``value`` as JSON data.

    Raises:
        Misfit: it, or a part of it, has no JSON form.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return to_json(value.value)
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()  # half a surrogate pair is no text, and JSON readers refuse it
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Misfit(f"the result has the number {value}, which JSON has no form for; return None or a text")
        return float(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, UUID | Decimal):
        return str(value)
    if hasattr(value, "model_dump"):  # a pydantic model
        return value.model_dump(mode="json")
    return _parts_to_json(value)


def _parts_to_json(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(to_json(name)): to_json(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(member) for member in value]
    if isinstance(value, Set):
        return sorted((to_json(member) for member in value), key=str)
    raise Misfit(
        f"the result has a value of the type {type(value).__qualname__}, which JSON has no form for; return text, "
        "numbers, lists, dicts, dataclasses or pydantic models"
    )


def _misfit(where: str, expected: str, value: Any) -> Misfit:
    return Misfit(f"{where} is {_quoted(value)}, and has to be {expected}")


def _quoted(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else f"a list of {len(value)}"
    text = {None: "null", True: "true", False: "false"}.get(value) if value is None or isinstance(value, bool) else None
    text = text or (repr(value[:MAX_TEXT]) if isinstance(value, str) else str(value)[:MAX_TEXT])
    return text
