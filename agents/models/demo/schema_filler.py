"""Fills a JSON Schema from a sentence by patterns; a field without a match becomes null, empty or its default."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import Any

from config.clock import utc_now

_MONTHS = [name.lower() for name in calendar.month_name[1:]]
_DAYS = [name.lower() for name in calendar.day_name]
_NAME = r"[A-ZÀ-ÖØ-Þ][\wÀ-ÿ'’.-]*"
_NEXT = rf"(?<!\w\w\w\w\.) {_NAME}"  # "St. Louis" is one name, "Lisbon. Tom" are two
_NAMES = rf"{_NAME}(?:{_NEXT}){{0,3}}"
_PEOPLE = re.compile(rf"\b(?:[Ww]ith|[Cc]all|[Mm]eet|[Dd]ear|[Tt]his is) ({_NAMES}(?:(?:, | and ){_NAMES})*)")
_PLACE = re.compile(rf"\b(?:in|at) (?:the )?({_NAMES})")
_DETAILS = re.compile(r"[\n,;!?]|\s(?:on|at|in|by) (?=\d|[A-Z])|\s(?:tomorrow|today|next)\b", re.IGNORECASE)
_EMPTY: Mapping[str, Any] = {"array": [], "boolean": False, "integer": 0, "number": 0, "string": "unknown"}
MAX_REFERENCES = 4
"""A reference behind more references is left as it is."""


def fill(schema: Mapping[str, Any], sentence: str) -> dict[str, Any]:
    """Return an object that fits ``schema``, with what ``sentence`` says in it."""
    return {name: _value(name.lower(), each, sentence, schema) for name, each in schema.get("properties", {}).items()}


def shape_of(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema without its reference and its alternative of null; ``{}`` for one that allows any value."""
    for _ in range(MAX_REFERENCES):
        if isinstance(schema, Mapping) and "$ref" in schema:
            steps, schema = schema["$ref"].split("/")[1:], root
            for step in steps:
                schema = schema.get(step) if isinstance(schema, Mapping) else None
        elif isinstance(schema, Mapping):
            schema = next((option for option in schema.get("anyOf", ()) if option != {"type": "null"}), schema)
    return schema if isinstance(schema, Mapping) else {}


def types_of(shape: Mapping[str, Any]) -> list[str]:
    """Return the types a schema allows: ``string`` where it names none."""
    kinds = shape.get("type", "string")
    return kinds if isinstance(kinds, list) else [kinds]


def _value(name: str, schema: Any, text: str, root: Mapping[str, Any]) -> Any:
    shape = shape_of(schema, root)
    kinds, options = types_of(shape), shape.get("enum", ())
    is_optional = isinstance(schema, Mapping) and {"type": "null"} in schema.get("anyOf", ())
    may_be_null = is_optional or "null" in kinds or None in options
    if "object" in kinds:
        below, needed = shape.get("properties", {}), shape.get("required", ())  # no others: a schema may contain itself
        return None if may_be_null else {each: _value(each.lower(), below.get(each), text, root) for each in needed}
    const = shape["const"] if "const" in shape else _found(name, shape, text)
    if const is not None or may_be_null:
        return const
    return shape.get("default", options[0] if options else shape.get("minimum", _EMPTY.get(kinds[0])))


def _found(name: str, shape: Mapping[str, Any], text: str) -> Any:
    kinds, lower = types_of(shape), text.lower()
    if "enum" in shape:
        return next((option for option in shape["enum"] if isinstance(option, str) and option.lower() in lower), None)
    if "array" in kinds:
        return people_in(text) if re.search("people|person|names|guests", name) else None
    if "boolean" in kinds:
        return name.removeprefix("is_").replace("_", " ") in lower
    if "integer" in kinds or "number" in kinds:
        return _number(shape, text)
    find = next((find for names, find in _FINDERS.items() if re.search(names, name)), None)
    return find(text) if find else text[: shape.get("maxLength", 500)]


def _number(shape: Mapping[str, Any], text: str) -> float | None:
    """Return the first number that is no part of a date or time, within the schema's bounds."""
    plain = re.sub(r"\d{4}-\d{2}-\d{2}|\d{1,2}:\d{2}", " ", text)
    match = re.search(r"\d{1,15}(?:\.\d+)?", plain)
    if match is None:
        return None
    value = max(float(shape.get("minimum", "-inf")), min(float(shape.get("maximum", "inf")), float(match[0])))
    return int(value) if value.is_integer() else value


def _title(text: str) -> str:
    title = _DETAILS.split(text.strip(), maxsplit=1)[0].strip()
    return title[:1].upper() + title[1:80] or "Untitled"


def _day(text: str) -> str | None:
    day = date_in(text, utc_now().date())
    return day.isoformat() if day else None


def people_in(text: str) -> list[str]:
    """Return who is named behind words that introduce people."""
    people = [name.strip(".") for names in _PEOPLE.findall(text) for name in re.split(r", | and ", names)]
    return [name for name in dict.fromkeys(people) if name.lower() not in (*_MONTHS, *_DAYS)]


def _place(text: str) -> str | None:
    places = (name.strip(".") for name in _PLACE.findall(text))
    return next((name for name in places if name.split()[0].lower() not in (*_MONTHS, *_DAYS)), None)


def time_in(text: str) -> str | None:
    """Return the first time of day as HH:MM."""
    match = re.search(r"\b(\d{1,2}):(\d{2})\b|\b(\d{1,2}) ?(am|pm)\b", text, re.IGNORECASE)
    if match is None:
        return None
    hour, minute = int(match[1] or match[3]), int(match[2] or 0)
    if match[4]:
        hour = hour % 12 + (12 if match[4].lower() == "pm" else 0)
    return f"{hour:02d}:{minute:02d}" if hour < 24 and minute < 60 else None


def date_in(text: str, today: date) -> date | None:
    """Return the first date a text names, also "tomorrow" and "next Friday", counted from ``today``."""
    lower = text.lower()
    try:
        if written := re.search(r"\b(\d{4}-\d{2}-\d{2})\b", lower):
            return date.fromisoformat(written[1])
        if spoken := re.search(rf"\b(\d{{1,2}})(?:st|nd|rd|th)? (?:of )?({'|'.join(_MONTHS)})(?: (\d{{4}}))?", lower):
            return date(int(spoken[3] or today.year), _MONTHS.index(spoken[2]) + 1, int(spoken[1]))
    except ValueError:
        return None
    for word, days in (("tomorrow", 1), ("today", 0)):
        if word in lower:
            return today + timedelta(days=days)
    weekday = next((number for number, day in enumerate(_DAYS) if re.search(rf"\b{day}\b", lower)), None)
    return None if weekday is None else today + timedelta(days=(weekday - today.weekday() - 1) % 7 + 1)


_FINDERS: Mapping[str, Callable[[str], str | None]] = {
    "mail": lambda text: next(iter(re.findall(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", text)), None),
    "date|day|when": _day,
    "time|start|begin": time_in,
    "city|place|location|where|country": _place,
    "(?:^|_)(?:name|person|who)$": lambda text: next(iter(people_in(text)), None),
    "title|subject|summary": _title,
}
"""What finds the text of a field, by the field's name."""
