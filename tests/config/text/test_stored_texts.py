"""Texts from outside are stored without secrets and hidden characters; names that have one are refused."""

from __future__ import annotations

import pytest

from config.errors import BadRequest
from config.text.stored_texts import TITLE_CHARS, stored_line, stored_name, stored_text

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
