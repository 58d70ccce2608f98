"""The fields of a form on a terminal: what each takes, and a value from what was typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

WORDS = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}
MAX_CHOICES = 12
"""Choices that are listed for a field."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FormField:
    """One field of a form."""

    name: str
    schema: Mapping[str, Any]
    """Its JSON Schema, references resolved."""
    is_required: bool

    @property
    def label(self) -> str:
        """The field's title and name, and what it says of itself."""
        title, about = self.schema.get("title"), self.schema.get("description")
        named = f"{title} [{self.name}]" if isinstance(title, str) and title != self.name else self.name
        return f"{named}: {about}" if isinstance(about, str) else named

    @property
    def choices(self) -> Sequence[Any] | None:
        """The values of which it takes one, or with ``is_list`` several; None where it takes others."""
        schema = _items(self.schema) if self.is_list else self.schema
        if "const" in schema:
            return [schema["const"]]
        return schema["enum"] if isinstance(schema.get("enum"), list) else None

    @property
    def is_list(self) -> bool:
        """Whether it takes several of a list of choices."""
        return self.schema.get("type") == "array" and isinstance(_items(self.schema).get("enum"), list)

    @property
    def kind(self) -> str:
        """What it takes, in words."""
        if self.choices is not None:
            choices = ", ".join(_text(choice) for choice in self.choices[:MAX_CHOICES])
            more = ", …" if len(self.choices) > MAX_CHOICES else ""
            return f"{'any of' if self.is_list else 'one of'} {choices}{more}"
        kinds = {"string": "text", "integer": "a whole number", "number": "a number", "boolean": "yes or no"}
        return kinds.get(str(self.schema.get("type")), "JSON")

    def value(self, typed: str) -> Any:
        """Return what was typed as the field's value; text that is none of its kind is returned as text.

        The form's schema decides whether the value fits.
        """
        if self.is_list:
            return [self._choice(part.strip()) for part in typed.split(",") if part.strip()]
        if self.choices is not None:
            return self._choice(typed.strip())
        kind = self.schema.get("type")
        if kind == "boolean":
            return WORDS.get(typed.strip().lower(), typed)
        return typed if kind == "string" else _decoded(typed)

    def _choice(self, typed: str) -> Any:
        """Return the choice with this text or this number, from 1; the text where there is none."""
        matches = [choice for choice in self.choices or () if _text(choice) == typed]
        if not matches and typed.isdecimal() and 0 < int(typed) <= len(self.choices or ()):
            matches = [(self.choices or ())[int(typed) - 1]]
        return matches[0] if matches else typed


def fields_of(form: Mapping[str, Any]) -> list[FormField]:
    """Return a form's fields in its order."""
    required = form.get("required", ())
    return [
        FormField(name=name, schema=_resolved(form, schema), is_required=name in required)
        for name, schema in form.get("properties", {}).items()
    ]


def _resolved(form: Mapping[str, Any], schema: Any) -> Mapping[str, Any]:
    """Return a field's schema with its own reference to the form's ``$defs``, or its one branch besides null, taken."""
    resolved = schema if isinstance(schema, Mapping) else {}
    for _ in range(4):
        branches = [
            branch
            for branch in resolved.get("anyOf", ())
            if isinstance(branch, Mapping) and branch.get("type") != "null"
        ]
        if isinstance(resolved.get("$ref"), str):
            target = form.get("$defs", {}).get(resolved["$ref"].rpartition("/")[2], {})
        elif len(branches) == 1:
            target = branches[0]
        else:
            break
        resolved = {**target, **{key: value for key, value in resolved.items() if key not in ("$ref", "anyOf")}}
    items = resolved.get("items")
    return {**resolved, "items": _resolved(form, items)} if isinstance(items, Mapping) else resolved


def _items(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    items = schema.get("items")
    return items if isinstance(items, Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _decoded(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
