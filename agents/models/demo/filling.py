"""Fills a JSON Schema from a sentence, as far as patterns go; what is not there becomes null, empty or a default."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from agents.models.demo.arithmetic import number_in
from config.clock import utc_now

_MONTHS = [
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
]  # fmt: skip
_DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_PROPER = r"[A-ZÀ-ÖØ-Þ][\wÀ-ÿ'’&.-]*"
_NAMES = rf"{_PROPER}(?:\s+{_PROPER})*"
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_PHONE = re.compile(r"\+?\d[\d ()/-]{6,}\d")
_URL = re.compile(r"https?://[^\s,;]+|\bwww\.[^\s,;]+")
_TIME = re.compile(
    r"\b(\d{1,2}):(\d{2})\s*(am|pm)?\b|\b(\d{1,2})\s*(am|pm|o'clock)\b|\b(noon|midnight)\b", re.IGNORECASE
)
_ROLE = re.compile(
    r"\b(?:is|as|our|the|a|an) ((?:\w+ )?(?:manager|engineer|director|designer|nurse|doctor|teacher|head of \w+"
    r"|ceo|cto|lead))\b",
    re.IGNORECASE,
)
_PERSON = rf"{_PROPER}(?:\s+{_PROPER}){{0,2}}"
_INTRODUCED = re.compile(
    r"\b(?:[Ww]ith|[Mm]eet(?:ing)?|[Cc]all|[Ii]nvite|[Ff]rom|I am|I'm|I’m|name is|[Tt]his is|[Dd]ear"
    rf"|[Tt]ell|[Aa]sk|[Ff]or)\s+({_PERSON}(?:(?:,\s*|,?\s+and\s+){_PERSON})*)"
)
_TITLE_ENDS = re.compile(
    r"(?<!\bDr)(?<!\bMr)(?<!\bMs)(?<!\bMrs)(?<!\bProf)[.!?](?=\s|$)|\n|,\s"
    r"|\s(?:on|at|in|from|by|for)\s+(?=\d|[A-Z]|noon|midnight)|\s(?:tomorrow|tonight|today|next|this|every)\b"
)
_TITLE_STARTS = re.compile(
    r"^(?:please |can you |could you )?(?:extract|note|add|schedule|put)\s+(?:a |an |the |this: )?", re.IGNORECASE
)
_NO_NAMES = frozenset([
    "i", "i'm", "i’m", "the", "a", "an", "we", "our", "my", "on", "at", "in", "for", "from", "to", "please", "book",
    "meet", "lunch", "dinner", "breakfast", "meeting", "call", "coffee", "hi", "hello", "dear", "workshop",
    "conference", "party", "interview", "talk", "extract", "note", "new", "invite", "invitation", "birthday",
    "team", "weekly", "project",
]) | {*_MONTHS, *_DAYS}  # fmt: skip


def fill(schema: Mapping[str, Any], sentence: str, *, only_required: bool = False) -> dict[str, Any]:
    """Return an object that fits ``schema``, with what ``sentence`` says in it."""
    value = _object(schema, sentence, schema, 0, only_required=only_required)
    return value


def _object(
    schema: Mapping[str, Any], text: str, root: Mapping[str, Any], depth: int, *, only_required: bool = False
) -> dict[str, Any]:
    wanted = schema.get("required", []) if only_required else list(schema.get("properties", {}))
    return {name: _value(name, schema["properties"].get(name, {}), text, root, depth + 1) for name in wanted}


def _value(name: str, schema: Any, text: str, root: Mapping[str, Any], depth: int) -> Any:
    schema = _resolved(schema, root)
    if depth > 8 or not isinstance(schema, Mapping):
        return None
    if "const" in schema:
        return schema["const"]
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return _choice(schema, text)
    options = [_resolved(option, root) for key in ("anyOf", "oneOf") for option in schema.get(key, [])]
    kinds = _kinds(schema, options)
    chosen = next((option for option in options if option.get("type") != "null"), schema) if options else schema
    found = _found(name, chosen, kinds, text, root, depth)
    if found not in (None, "", []):
        return found
    if "null" in kinds:
        return None
    return schema.get("default", _nothing(chosen, kinds, text, root, depth))


def _resolved(schema: Any, root: Mapping[str, Any]) -> Any:
    for _ in range(8):
        reference = schema.get("$ref") if isinstance(schema, Mapping) else None
        if not isinstance(reference, str):
            break
        schema = root
        for step in reference.removeprefix("#").split("/")[1:]:
            schema = schema.get(step, {}) if isinstance(schema, Mapping) else {}
    return schema


def shape_of(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of an argument without references and without the alternative of null."""
    known = _resolved(schema, root)
    if not isinstance(known, Mapping):
        return {}
    options = [_resolved(option, root) for key in ("anyOf", "oneOf") for option in known.get(key, [])]
    chosen = [option for option in options if isinstance(option, Mapping) and option.get("type") != "null"]
    return chosen[0] if len(chosen) == 1 else known


def kinds_of(shape: Mapping[str, Any]) -> list[str]:
    """Return the types a shape allows: ``string`` where it names none and has no alternatives."""
    return _kinds(shape, []) if not {"anyOf", "oneOf"} & set(shape) else []


def _kinds(schema: Mapping[str, Any], options: list[Any]) -> list[str]:
    kinds: list[str] = []
    for part in [schema, *options]:
        kind = part.get("type", []) if isinstance(part, Mapping) else []
        kinds += kind if isinstance(kind, list) else [kind]
    return kinds or ["string"]


def _choice(schema: Mapping[str, Any], text: str) -> Any:
    lower = text.lower()
    for option in schema["enum"]:
        if isinstance(option, str) and re.search(rf"\b{re.escape(option.lower().replace('_', ' '))}", lower):
            return option
    if None in schema["enum"]:
        return None
    usual = [option for option in schema["enum"] if option in ("other", "unknown", "neutral", "normal", "none")]
    return schema.get("default", usual[0] if usual else schema["enum"][0])


def _found(
    name: str, schema: Mapping[str, Any], kinds: list[str], text: str, root: Mapping[str, Any], depth: int
) -> Any:
    if "object" in kinds:
        return _object(schema, text, root, depth)
    if "array" in kinds:
        return _many(name, schema, text, root, depth)
    if "integer" in kinds or "number" in kinds:
        return _number(name, schema, text)
    if "boolean" in kinds:
        word = name.removeprefix("is_").removeprefix("has_").replace("_", " ").lower()
        return word in text.lower() and not re.search(
            rf"\b(?:not|no|isn't|never) (?:\w+ )?{re.escape(word)}", text.lower()
        )
    return _text(name, schema, text)


def _many(name: str, schema: Mapping[str, Any], text: str, root: Mapping[str, Any], depth: int) -> list[Any]:
    items = _resolved(schema.get("items", {}), root)
    word = name.lower()
    if re.search(r"people|person|names|guests|attendees|participants|contacts|with|who", word):
        people: list[Any] = [name for name in people_in(text) if name != place_in(text)]
        if _kinds(items, [])[0] == "object":
            return [_object(items, person, root, depth) for person in people]
        return people
    if "mail" in word:
        return _EMAIL.findall(text)
    if re.search(r"tags|topics|keywords", word):
        return _keywords(text)[:5]
    if "string" in _kinds(items, []):
        return [match.strip() for match in re.findall(_NAMES, text) if match.lower() not in _NO_NAMES][:10]
    return []


def _number(name: str, schema: Mapping[str, Any], text: str) -> float | None:
    """Return the number next to the field's name, else the first one that is no date, time or telephone number."""
    word = re.escape(name.replace("_", " ").lower().split()[0].rstrip("s"))
    plain = re.sub(r"\d{4}-\d{2}-\d{2}|\d{1,2}:\d{2}", " ", _PHONE.sub(" ", text)).lower()
    near = re.search(rf"(\d+(?:\.\d+)?)\s*(?:\w+\s+){{0,2}}{word}|\b{word}\w*\D{{0,12}}(\d+(?:\.\d+)?)", plain)
    whole = number_in(plain)
    found = (near[1] or near[2]) if near else None if whole is None else str(whole)
    if found is None:
        return None
    value = max(float(schema.get("minimum", "-inf")), min(float(schema.get("maximum", "inf")), float(found)))
    return int(value) if value.is_integer() else value


def _text(name: str, schema: Mapping[str, Any], text: str) -> str | None:
    word, form = name.lower(), str(schema.get("format", ""))
    if "mail" in word or form == "email":
        return _first(_EMAIL, text)
    if re.search(r"phone|mobile|telephone|fax", word):
        return _first(_PHONE, _EMAIL.sub(" ", text))
    if re.search(r"url|link|website|homepage", word) or form == "uri":
        return _first(_URL, text)
    if re.search(r"date|day|when|deadline", word) or form in ("date", "date-time"):
        day = date_in(text, utc_now().date())
        if form == "date-time" and day:
            return f"{day.isoformat()}T{time_in(text) or '00:00'}:00Z"
        return day.isoformat() if day else None
    if re.search(r"time|start|hour|begin", word) or form == "time":
        return time_in(text)
    if re.search(r"city|town|country", word):
        return place_in(text, "in")
    if re.search(r"place|location|where|venue|room|address", word):
        return place_in(text)
    if re.search(r"compan|organi[sz]ation|employer|firm", word):
        match = re.search(rf"\b(?:at|for|from|of|with) ({_NAMES})(?![\w'’]*[’']s)", _EMAIL.sub(" ", text))
        return match[1].strip(" .") if match else None
    if re.search(r"role|job|position|profession", word):
        match = _ROLE.search(text)
        return match[1] if match else None
    if re.search(r"(?:^|_)(?:name|person|contact|who|host|organi[sz]er|author|sender|customer)$", word):
        people = people_in(text)
        return people[0] if people else None
    if re.search(r"title|subject|summary|event|headline|what|occasion", word):
        return title_of(text)
    return text[: schema.get("maxLength", 500)]


def _nothing(schema: Mapping[str, Any], kinds: list[str], text: str, root: Mapping[str, Any], depth: int) -> Any:
    if "array" in kinds:
        return []
    if "object" in kinds:
        return _object(schema, text, root, depth)
    if "boolean" in kinds:
        return False
    if "integer" in kinds or "number" in kinds:
        return schema.get("minimum", 0)
    return "unknown"[: schema.get("maxLength", 7)]


def people_in(text: str) -> list[str]:
    """Return who is named: after words that introduce people, else any two capitalised words in a row."""
    text = _EMAIL.sub(" ", _URL.sub(" ", text))
    lists = _INTRODUCED.findall(text)
    found: list[str] = []
    for names in lists:
        found += [name.strip(" .") for name in re.split(r",\s*|\s+and\s+", names)]
    if not found:
        found = [name.strip(" .") for name in re.findall(rf"{_PROPER}\s+{_PROPER}", text)]
    names = [re.sub(r"['’]s$", "", name) for name in found]
    return [
        name for name in dict.fromkeys(names) if name and not any(word.lower() in _NO_NAMES for word in name.split())
    ]


def place_in(text: str, words: str = "in|at") -> str | None:
    """Return where it is: after "in" or "at", unless a month, a day or a time follows."""
    for match in re.finditer(rf"\b(?:{words})\s+(?:the\s+)?({_NAMES}(?:\s+\d{{1,4}}\b)?|room \w+)", text):
        place = match[1].strip(" .,")
        if place.lower().split()[0] not in _NO_NAMES:
            return place
    return None


def time_in(text: str) -> str | None:
    """Return the first time of day as HH:MM."""
    match = _TIME.search(text)
    if match is None:
        return None
    if match[6]:
        return "12:00" if match[6].lower() == "noon" else "00:00"
    hour, minute = int(match[1] or match[4]), int(match[2] or 0)
    half = (match[3] or match[5] or "").lower()
    if half == "pm" and hour < 12:
        hour += 12
    if half == "am" and hour == 12:
        hour = 0
    return f"{hour:02d}:{minute:02d}" if hour < 24 and minute < 60 else None


def date_in(text: str, today: date) -> date | None:
    """Return the first date a text names, also "tomorrow" and "next Friday", counted from ``today``."""
    lower = text.lower()
    written = re.search(r"\b(\d{4})-(\d{2})-(\d{2})\b", lower)
    if written:
        return _date(int(written[1]), int(written[2]), int(written[3]))
    months = "|".join(f"{month[:3]}(?:{month[3:]})?" if len(month) > 3 else month for month in _MONTHS)
    spoken = re.search(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?\.?\s+(?:of\s+)?({months})\b\.?,?(?:\s+(\d{{4}}))?", lower)
    if spoken:
        return _coming(int(spoken[1]), spoken[2], spoken[3], today)
    spoken = re.search(rf"\b({months})\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?\b,?(?:\s+(\d{{4}}))?", lower)
    if spoken:
        return _coming(int(spoken[2]), spoken[1], spoken[3], today)
    for word, days in (("day after tomorrow", 2), ("tomorrow", 1), ("today", 0), ("tonight", 0)):
        if word in lower:
            return today + timedelta(days=days)
    for number, day in enumerate(_DAYS):
        if re.search(rf"\b{day}\b", lower):
            return today + timedelta(days=(number - today.weekday() - 1) % 7 + 1)
    return None


def _coming(day: int, month: str, year: str | None, today: date) -> date | None:
    number = next(index for index, name in enumerate(_MONTHS, 1) if name.startswith(month[:3]))
    if year:
        return _date(int(year), number, day)
    found = _date(today.year, number, day)
    return _date(today.year + 1, number, day) if found and found < today else found


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return datetime(year, month, day, tzinfo=UTC).date()
    except ValueError:
        return None


def title_of(text: str) -> str:
    """Return the beginning of a text up to where the details start."""
    start = _TITLE_ENDS.split(text.strip(), maxsplit=1)[0].strip(" ,:;")
    start = _TITLE_STARTS.sub("", start)
    return (start[:1].upper() + start[1:80]) or "Untitled"


def _keywords(text: str) -> list[str]:
    words = re.findall(r"[A-Za-zÀ-ÿ]{5,}", text.lower())
    return list(dict.fromkeys(word for word in words if word not in _NO_NAMES))


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return match[0].strip(" .") if match else None
