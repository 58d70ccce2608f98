"""What a platform may show of a text, and how a long one is divided."""

from __future__ import annotations

import pytest

from config.redaction import register_secrets
from observers.channels.texts import MAX_SHOWN_CHARS, escaped, parts_of, shown, without_remark


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def test_a_short_text_is_one_part_and_an_empty_one_is_none() -> None:
    assert parts_of("Hello\n\nyou", 100) == ["Hello\n\nyou"]
    assert parts_of(" \n\n ", 100) == []


def test_a_text_is_divided_between_paragraphs_then_lines_then_words() -> None:
    assert parts_of("a" * 30 + "\n\n" + "b" * 30, 50) == ["a" * 30, "b" * 30]
    assert parts_of("a" * 30 + "\n" + "b" * 30, 50) == ["a" * 30, "b" * 30]
    assert parts_of("a" * 30 + " " + "b" * 30, 50) == ["a" * 30, "b" * 30]
    assert parts_of("a" * 100, 50) == ["a" * 46, "a" * 46, "a" * 8]


def test_a_block_of_code_is_closed_and_opened_again() -> None:
    lines = "\n".join(f"line {number}" for number in range(20))

    parts = parts_of(f"Look:\n```python\n{lines}\n```\nThat is it.", 90)

    assert len(parts) > 2
    assert all(part.count("```") % 2 == 0 for part in parts)
    assert parts[1].startswith("```python\nline ")
    assert [line for part in parts for line in part.split("\n") if line.startswith("line")] == lines.split("\n")


@pytest.mark.parametrize("text", ["word " * 2000, "🙂" * 3000, "x" * 7000, "```\n" + "y\n" * 4000], ids=len)
def test_no_part_is_too_long(text: str) -> None:
    assert all(units(part) <= 1990 for part in parts_of(text, 1990))


def test_the_first_parts_stay_while_a_text_grows() -> None:
    text = "\n\n".join(f"Paragraph {number} " + "and more " * (number % 7) for number in range(200))
    whole = parts_of(text, 500)

    for length in range(0, len(text), 97):
        assert whole[: max(0, len(parts_of(text[:length], 500)) - 1)] == parts_of(text[:length], 500)[:-1]


def test_links_are_visible_and_hidden_characters_go() -> None:
    assert shown("[bank](https://a.example) [x](<http://b>)") == "[bank] (https://a.example) [x] (<http://b>)"
    for address in (
        "     https://a.example",
        "\nhttps://a.example",
        "<  https://a.example>",
        "//a.example",
        "https&#58;//a",
    ):
        assert "](" not in shown(f"[bank]({address})")
    assert shown("a\u202eb\u200bc\U000e0041d\ne") == "abcd\ne"


def test_a_secret_is_redacted_also_with_a_hidden_character_in_it() -> None:
    register_secrets(["s3cret-of-this-test"])

    assert shown("it is s3cret-of-\u200bthis-test.") == "it is [redacted]."


def test_a_text_beyond_the_limit_says_how_much_is_left_out() -> None:
    text = shown("word " * 20_000)

    assert len(text) < MAX_SHOWN_CHARS + 100
    assert text.endswith("… (40,000 more characters are in the run.)")


def test_slack_reads_no_mention_and_no_hidden_link() -> None:
    assert escaped("[bank][1]\n\n[1]: https://a.example") == "[bank][1]\n\n[1] : https://a.example"
    text = "<!here> <@U1> <#C1> <mailto:a@b.c|x> <https://a.example|b> a < b <div> <<@U2>"

    assert escaped(text) == (
        "&lt;!here> &lt;@U1> &lt;#C1> &lt;mailto:a@b.c|x> &lt;https://a.example|b> a < b <div> <&lt;@U2>"
    )


def test_a_stream_has_no_line_that_goes_again() -> None:
    assert without_remark("Hello\nyou\n-# calling `clock`…") == "Hello\nyou"
    assert without_remark("-# queued…") == ""
    assert without_remark("Hello\nyou") == "Hello\nyou"
