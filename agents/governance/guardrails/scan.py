"""Finds and replaces in one text what a section of checks names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import orjson

from config.definitions.guardrails.checks import Action, Checks, PersonalData, flat, spans_of
from config.definitions.guardrails.prefix_patterns import (
    Start,
    first_characters,
    first_characters_pattern,
    prefix_pattern,
    superset_pattern,
)
from config.forks import after_fork
from config.redaction import PATTERNS as SECRETS
from config.redaction import REDACTED, Redactor, own_redactor
from config.redaction.redacted_data import SECRET_NAMES, Detection
from config.text.patterns import compiled

# --- personal data by its form
#
# IBANs and card numbers are recognised by their check digits, so other long numbers stay. Names and addresses of people
# have no form and are not found.

_EMAIL = r"\b[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}\b"
_IBAN = r"\b[A-Za-z]{2}[0-9]{2}(?:[ -]?[A-Za-z0-9]){11,30}\b"
_CARD = r"\b(?:[3-6][0-9]|2[2-7])(?:[ -]?[0-9]){11,17}\b"
_PHONE = (
    r"\+[1-9](?:[ ().-]{0,2}[0-9]){7,14}\b|\b00[1-9](?:[ -]?[0-9]){7,14}\b"
    r"|(?:\([2-9][0-9]{2}\) ?|\b[2-9][0-9]{2}[-. ])[0-9]{3}[-. ][0-9]{4}\b"
)
PATTERNS = {
    PersonalData.EMAIL: _EMAIL,
    PersonalData.IBAN: _IBAN,
    PersonalData.CARD: _CARD,
    PersonalData.PHONE: _PHONE,
}
"""What each kind looks like, for RE2 and ``re``; a match may be none of it by its check digits."""

_IBAN_CHARS = """
    15 NO, 16 BE, 18 DK FI FO GL NL SD, 19 MK SI, 20 AT BA EE KZ LT LU MN XK, 21 CH HR LI LV,
    22 BG BH CR DE GB GE IE ME RS VA, 23 AE GI IL IQ OM SO TL, 24 AD CZ ES MD PK RO SA SE SK TN VG, 25 LY PT ST,
    26 IS TR, 27 BI DJ FR GR IT MC MR SM, 28 AL AZ BY CY DO GT HU LB NI PL SV, 29 BR EG PS QA UA, 30 JO KW MU,
    31 MT SC, 32 LC, 33 RU
"""
"""How many letters and digits an IBAN has, and the countries whose it is."""
_LENGTHS = {country: int(row.split()[0]) for row in _IBAN_CHARS.split(",") for country in row.split()[1:]}


def personal_spans(kind: PersonalData, text: str) -> Iterator[tuple[int, int]]:
    """Yield where a text has data of this kind, from left to right, without overlaps."""
    search, end_of, at = compiled(PATTERNS[kind]).search, _ENDS.get(kind), 0
    data = flat(text)
    text = data.decode()
    while (match := search(data, at)) is not None:
        start, end = match.span()
        span_end = end if end_of is None else end_of(text, start, end)
        if span_end:
            yield start, span_end
        at = span_end or _behind_group(text, start)


def _behind_group(text: str, start: int) -> int:
    """Return where the next match may begin: behind these letters and digits."""
    while start < len(text) and text[start].isalnum():
        start += 1
    return start


def _iban_end(text: str, start: int, end: int) -> int:
    """Return where the IBAN that begins here ends by its country's length; 0 where its check digits are wrong."""
    places = [at for at in range(start, end) if text[at].isalnum()]
    length = _LENGTHS.get(text[start : start + 2].upper(), 0)
    if not 0 < length <= len(places):
        return 0
    position = places[length - 1] + 1
    if position < len(text) and text[position].isalnum():
        return 0
    chars = "".join(text[at] for at in places[:length]).upper()
    digits = "".join(str(int(char, 36)) for char in chars[4:] + chars[:4])
    return position if int(digits) % 97 == 1 else 0


def _card_end(text: str, start: int, end: int) -> int:
    """Return where the longest card number that begins here ends; 0 where no check digit fits."""
    places = [at for at in range(start, end) if text[at].isdigit()]
    for count in range(min(19, len(places)), 12, -1):
        position = places[count - 1] + 1
        is_whole = position == len(text) or not text[position].isalnum()
        if is_whole and _is_luhn([int(text[at]) for at in places[:count]]):
            return position
    return 0


def _is_luhn(digits: list[int]) -> bool:
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return len(set(digits)) > 1 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


_ENDS: dict[PersonalData, Callable[[str, int, int], int]] = {
    PersonalData.IBAN: _iban_end,
    PersonalData.CARD: _card_end,
}

# --- the scan


START_CHARS = 4
"""Characters by which the fast test recognises that a match may begin."""
MAX_VALUE_CHARS = 300
"""Characters of a registered value that are compared while it is streamed; behind them everything is held."""
FEW_CHARS = 500
"""Characters of a text about which a single rule is asked at once: one search of RE2 would take as long, and ten
milliseconds the first time in a process that has not loaded it, as a web process has not."""

Replace = Callable[[str], str]


@dataclass(frozen=True, kw_only=True, slots=True)
class TextRule:
    """One check: what it is called, what it replaces, and what is done where it finds something."""

    name: str
    action: Action
    replace: Replace
    patterns: tuple[str, ...]


class Scan:
    """The checks of one direction, compiled with the secrets that are known now; safe for any thread."""

    def __init__(self, checks: Checks, redactor: Redactor) -> None:
        self._rules = [TextRule(name="secrets", action=checks.secrets, replace=redactor.likely, patterns=SECRETS)]
        if checks.pii != "off":
            self._rules += [_personal(kind, checks.pii) for kind in checks.pii_kinds]
        self._shipped = tuple(pattern for rule in self._rules for pattern in rule.patterns)
        self._rules += [_custom(check.pattern, check.name, check.action) for check in checks.patterns]
        self._custom = tuple(check.pattern for check in checks.patterns)
        self._patterns = (*self._shipped, *self._custom)
        self._values = redactor.values
        self._known, self._whole = redactor.known, redactor.whole
        self.of_secrets = Detection("secrets", checks.secrets)
        """What is reported of a secret."""

    def finds_nothing(self, data: Any) -> bool:
        """Return whether JSON data, seen as one text, has nothing to clean; False where that does not say it.

        A name that marks its value as a secret is looked at with each text by itself, and so are escapes, which hide
        what they stand for.
        """
        try:
            text = orjson.dumps(data).decode()
        except TypeError:  # too deep
            return False
        return "\\" not in text and self._has_none_of(text, (*self._shipped, SECRET_NAMES))

    def _has_none_of(self, text: str, shipped: tuple[str, ...]) -> bool:
        """Return whether a text has nothing that a shipped or a custom check is about; False where that is unclear."""
        seen = flat(text)
        return (
            self._known(text) == text
            and _superset(shipped).search(seen) is None
            and all(_superset((pattern,)).search(seen) is None for pattern in self._custom)
        )

    def clean(self, text: str) -> tuple[str, list[Detection]]:
        """Return the text with ``[redacted]`` in place of what was found, and the checks that found it."""
        detections: list[Detection] = []
        is_searched = len(self._rules) > 1 or len(text) > FEW_CHARS
        if is_searched and self._has_none_of(text, self._shipped):
            return text, detections
        for rule in self._rules:
            replaced = rule.replace(text)
            if replaced != text:
                text = replaced
                detections.append(Detection(rule.name, rule.action))
        return text, detections

    def is_marked(self, name: str, text: str) -> bool:
        """Return whether a field's name says that its text is a secret."""
        written = f"{name}={text}"
        return self._whole(written) != written

    @property
    def start(self) -> re.Pattern[str]:
        """The fast test whether a match may begin."""
        return _start(self._patterns, self._values)

    def unfinished(self, text: str, at: int) -> int | None:
        """Return where an unfinished match at the text's end begins, at ``at`` or behind it; None where none is."""
        seen = flat(text)
        matches = (pattern.search(seen, at) for pattern in self._prefix_patterns())
        return min((match.start() for match in matches if match is not None), default=None)

    def _prefix_patterns(self) -> Iterator[Any]:
        """Yield RE2's patterns of an unfinished match: one of all shipped checks, and one of each custom check.

        RE2 would take minutes for a single pattern of fifty large ones.
        """
        yield _prefix_pattern(self._shipped, self._values)
        for pattern in self._custom:
            yield _prefix_pattern((pattern,), ())

    def prepare(self) -> None:
        """Compile now what would be compiled when it is first needed, on an event loop: that takes some 30 ms."""
        _start(self._patterns, self._values)
        list(self._prefix_patterns())
        for patterns in (self._shipped, (*self._shipped, SECRET_NAMES), *((pattern,) for pattern in self._custom)):
            _superset(patterns)


@lru_cache(maxsize=64)
def _scan(checks: Checks, redactor: Redactor) -> Scan:
    return Scan(checks, redactor)


@lru_cache(maxsize=64)
def _start(patterns: tuple[str, ...], values: tuple[str, ...]) -> re.Pattern[str]:
    first = [start for pattern in patterns for start in first_characters(pattern, START_CHARS)]
    first += [_value_start(value) for value in values]
    return re.compile(first_characters_pattern(first))


@lru_cache(maxsize=256)
def _prefix_pattern(patterns: tuple[str, ...], values: tuple[str, ...]) -> Any:
    """Return RE2's pattern of an unfinished match of any of these at the end."""
    unfinished = [*map(prefix_pattern, patterns), *map(_value_opening, values)]
    return compiled(rf"(?:{'|'.join(unfinished)})\z")


@lru_cache(maxsize=256)
def _superset(patterns: tuple[str, ...]) -> Any:
    """Return RE2's pattern of all matches of any of these."""
    return compiled("|".join(f"(?:{superset_pattern(pattern)})" for pattern in patterns))


@after_fork
def _renew() -> None:
    _scan.cache_clear()
    _superset.cache_clear()
    _start.cache_clear()
    _prefix_pattern.cache_clear()


def scan_of(checks: Checks) -> Scan:
    """Return the scan of these checks with the secrets that are known now."""
    return _scan(checks, own_redactor())


def _personal(kind: Any, action: Action) -> TextRule:
    replace = partial(_replaced, partial(personal_spans, kind))
    return TextRule(name=str(kind), action=action, replace=replace, patterns=(PATTERNS[kind],))


def _custom(pattern: str, name: str, action: Action) -> TextRule:
    return TextRule(
        name=name, action=action, replace=partial(_replaced, partial(spans_of, pattern)), patterns=(pattern,)
    )


def _replaced(spans: Callable[[str], Iterator[tuple[int, int]]], text: str) -> str:
    pieces, at = [], 0
    for start, end in spans(text):
        pieces += [text[at:start], REDACTED]
        at = end
    return "".join([*pieces, text[at:]]) if pieces else text


def _value_start(value: str) -> Start:
    return tuple(rf"\U{ord(char):08x}" for char in value[:START_CHARS])


def _value_opening(value: str) -> str:
    return prefix_pattern(re.escape(value)) if len(value) <= MAX_VALUE_CHARS else _long_opening(value)


def _long_opening(value: str) -> str:
    rest = "(?s:.*)"
    for code in reversed(flat(value[:MAX_VALUE_CHARS])):
        rest = rf"(?:\x{{{code:x}}}{rest})?"
    return rest
