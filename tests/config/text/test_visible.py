"""Hidden characters are shown by their number; joiners that scripts and emoji need stay."""

from __future__ import annotations

import json

import pytest

from config.text.visible import escaped_json, visible

HIDDEN = "\x00\x1b\x7f\x85\x9b\u00ad\u061c\u200b\u200e\u200f\u2028"
HIDDEN += "\u202a\u202e\u2060\u2066\u2069\u3164\ufeff\U000e0041\U000e0100"
PLAIN = ["👨‍👩‍👧", "می‌خواهم", "क्‍ष", "❤️", "🏳️‍🌈", "1️⃣", "line\nand\ttab", "naïve Zürich 東京"]


@pytest.mark.parametrize("character", HIDDEN, ids=lambda character: f"U+{ord(character):04X}")
def test_a_hidden_character_is_written_out(character: str) -> None:
    assert visible(f"a{character}b") == f"a⟨U+{ord(character):04X}⟩b"


@pytest.mark.parametrize("text", PLAIN)
def test_what_people_write_stays(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x\u200dy", "x⟨U+200D⟩y"),
        ("x\u200c", "x⟨U+200C⟩"),
        ("\u200d👧", "⟨U+200D⟩👧"),
        ("a\ufe0f\ufe0e\ufe01", "a\ufe0f⟨U+FE0E⟩⟨U+FE01⟩"),
    ],
)
def test_joiners_and_selectors_that_join_nothing_are_written_out(text: str, expected: str) -> None:
    assert visible(text) == expected


def test_json_for_a_terminal_is_the_same_json_and_hides_nothing() -> None:
    value = {"text": HIDDEN + "".join(PLAIN)}

    output = escaped_json(json.dumps(value, ensure_ascii=False))

    assert json.loads(output) == value
    assert not set(output) & set(HIDDEN)
