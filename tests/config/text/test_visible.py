"""Hidden characters are shown by their number, and stored texts have none; joiners that scripts and emoji need stay."""

from __future__ import annotations

import json

import pytest

from config.errors import BadRequest
from config.text.stored_texts import TITLE_CHARS, stored_line, stored_name, stored_text
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


KEY = "cbk_0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("  Hello\n\tthere  ", "Hello there"),
        ("a\x00b\x1b[31mred\x9b", "a�b�[31mred�"),
        ("abc\u202edef", "abc�def"),
        ("\ud83d", "�"),
        ("x" * 121, "x" * 119 + "…"),
        ("x" * 120, "x" * 120),
        ("word " * 60, ("word " * 24)[:119].rstrip() + "…"),
        (f"with {KEY} in it", "with [redacted] in it"),
        ("x" * 110 + f" {KEY}", "x" * 110 + " [redacte…"),
        (" " * 470 + KEY, "[redacted]"),
    ],
)
def test_a_line_is_readable_and_has_no_secret(text: str, line: str) -> None:
    assert stored_line(text) == line
    assert len(line) <= TITLE_CHARS


def test_a_text_keeps_its_lines() -> None:
    assert stored_text(f"one\r\ntwo\u200b {KEY}\n") == "one\ntwo⟨U+200B⟩ [redacted]\n"


@pytest.mark.parametrize("name", [KEY, f"order-{KEY}", "a\u202eb", "a\x9bb"])
def test_a_name_with_a_secret_or_a_hidden_character_is_refused(name: str) -> None:
    with pytest.raises(BadRequest, match=r"^the name has (an API key|the hidden character)") as refusal:
        stored_name(name, "the name")

    assert name not in str(refusal.value)


@pytest.mark.parametrize("name", ["order-4711", "message.created", "Zürich 東京", "می‌خواهم"])
def test_other_names_stay(name: str) -> None:
    assert stored_name(name, "the name") == name
