"""What a deployment or an agent wants checked, and that its patterns can be matched in linear time.

Checks are the sections ``input`` and ``output`` of guardrails. RE2 matches patterns of users in time linear in the
text; what RE2 cannot match so is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from config.definitions.guardrails.prefix_patterns import NotLinear, prefix_pattern
from config.text.patterns import PatternRefused, compiled, whole

MAX_PATTERN_CHARS = 1000
MAX_OPENING_CHARS = 100_000
"""Longest derived pattern; nested counted repeats multiply."""


def check_pattern(pattern: str) -> None:
    """Return if a pattern can be searched for in linear time, also in a stream, and never matches the empty text.

    Raises:
        PatternRefused: it cannot.
    """
    if len(pattern) > MAX_PATTERN_CHARS:
        raise PatternRefused(f"it has {len(pattern):,} characters and the limit is {MAX_PATTERN_CHARS:,}")
    regex = compiled(pattern)
    if regex.search("") is not None:
        raise PatternRefused("it matches the empty text, so it would match everywhere")
    try:
        derived = prefix_pattern(pattern)
    except NotLinear as error:
        raise PatternRefused(str(error)) from error
    except (re.error, RecursionError, OverflowError) as error:
        raise PatternRefused(f"Python's `re` does not read it ({error})") from error
    if len(derived) > MAX_OPENING_CHARS:
        raise PatternRefused("its counted repeats multiply; write it simpler")
    compiled(rf"(?:{derived})\z")


def spans_of(pattern: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield where a pattern matches, from left to right, without overlaps."""
    for match in compiled(pattern).finditer(whole(text)):
        if match.end() > match.start():
            yield match.span()


def flat(text: str) -> bytes:
    """Return a byte for each character, ``?`` for one outside ASCII, so that places in both are the same.

    The few characters outside ASCII that Python takes for a letter where case does not matter become that letter.
    """
    if not text.isascii():
        for char, letter in _ALIKE.items():
            text = text.replace(char, letter)
    return text.encode("ascii", "replace")


_ALIKE = {"\u0130": "i", "\u0131": "i", "\u017f": "s", "\u212a": "k"}


Action = Literal["redact", "block"]
_STRICTNESS = ("off", "redact", "block")
MAX_PATTERNS = 50


class PersonalData(StrEnum):
    """A kind of personal data."""

    EMAIL = "email"
    IBAN = "iban"
    CARD = "card"
    PHONE = "phone"


class CheckSection(BaseModel):
    """A mapping of YAML, which has no other fields than these."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class PatternCheck(CheckSection):
    """A pattern of the deployment's own."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,39}$")]
    """What the reasons call it."""
    pattern: Annotated[str, Field(min_length=1)]
    """A regular expression that RE2 matches in linear time."""
    action: Action = "redact"

    @field_validator("pattern")
    @classmethod
    def _is_linear(cls, value: str) -> str:
        try:
            check_pattern(value)
        except PatternRefused as error:
            raise ValueError(f"the pattern cannot be used: {error}") from error
        return value


class Checks(CheckSection):
    """What texts of one direction are checked for."""

    secrets: Action = "redact"
    """What is done about known secrets, and about what has the form of one."""
    pii: Literal["off", "redact", "block"] = "off"
    """What is done about personal data."""
    pii_kinds: tuple[PersonalData, ...] = tuple(PersonalData)
    """The kinds of personal data that ``pii`` is about."""
    patterns: Annotated[tuple[PatternCheck, ...], Field(max_length=MAX_PATTERNS)] = ()
    max_chars: Annotated[int, Field(strict=True, ge=1)] | None = None
    """Longest text; a longer one is blocked. None: no limit besides those of the settings."""

    def stricter(self, other: Checks) -> Checks:
        """Return the checks of both, each as strict as the stricter of the two."""
        limits = [limit for limit in (self.max_chars, other.max_chars) if limit is not None]
        kinds = [checks.pii_kinds for checks in (self, other) if checks.pii != "off"]
        return Checks.model_construct(
            secrets=max(self.secrets, other.secrets, key=_STRICTNESS.index),
            pii=max(self.pii, other.pii, key=_STRICTNESS.index),
            pii_kinds=tuple(dict.fromkeys(kind for some in kinds for kind in some)),
            patterns=tuple(dict.fromkeys((*self.patterns, *other.patterns))),
            max_chars=min(limits, default=None),
        )


class GuardrailFields(CheckSection):
    """The section ``guardrails`` of an agent's file, and the fields of the deployment's file."""

    input: Checks = Field(default_factory=Checks)
    """Of what a client gives to a run."""
    output: Checks = Field(default_factory=Checks)
    """Of what tools return and models write."""
    arguments: Literal["refuse", "pass"] = "refuse"
    """What is done about a tool call with a secret in its arguments."""

    def stricter(self, other: GuardrailFields) -> GuardrailFields:
        """Return both together: an agent can add to what its deployment wants, and take nothing away."""
        refuses = "refuse" in (self.arguments, other.arguments)
        return GuardrailFields.model_construct(
            input=self.input.stricter(other.input),
            output=self.output.stricter(other.output),
            arguments="refuse" if refuses else "pass",
        )
