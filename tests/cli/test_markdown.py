"""A model's Markdown on a terminal."""

from __future__ import annotations

import io

import click
import pytest

from cli.output.markdown import Markdown, line_rows, table_rows
from cli.output.quoted import text_width

TABLE = ["| Name | Price |", "|---|--:|", "| **Paper** | 5 |", "| 請求書 | `12` |"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def written(*pieces: str, monkeypatch: pytest.MonkeyPatch, columns: int = 80) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("LINES", "24")
    terminal = Terminal()
    text = Markdown(terminal)
    for piece in pieces:
        text.write(piece)
    text.end()
    return terminal.getvalue()


@pytest.mark.parametrize(
    ("line", "rows"),
    [
        ("# Orders", ["Orders"]),
        ("- one **two**", ["• one two"]),
        ("  12. `x = 1`", ["  12. x = 1"]),
        ("> said", ["▏ said"]),
        ("see [the page](https://example.org/a)", ["see the page (https://example.org/a)"]),
        ("[https://example.org](https://example.org)", ["https://example.org"]),
        ("2 * 3 * 4 is 24", None),
        ("**not closed", None),
        ("snake_case_name", None),
        ("", None),
    ],
)
def test_a_line_is_shown_without_its_markup(line: str, rows: list[str] | None) -> None:
    drawn = line_rows(line, 60)

    assert (None if drawn is None else [click.unstyle(row) for row in drawn]) == rows


def test_long_lines_are_broken_between_words_below_their_bullet() -> None:
    rows = [click.unstyle(row) for row in line_rows("- " + "**word** 請求書 " * 12 + "x" * 50, 24) or ()]

    assert rows[0].startswith("• word")
    assert all(row.startswith("  ") for row in rows[1:])
    assert max(map(text_width, rows)) <= 24


def test_a_table_is_aligned_and_one_that_does_not_fit_is_left() -> None:
    rows = [click.unstyle(row) for row in table_rows(TABLE, 60) or ()]

    assert rows == ["Name   │ Price", "───────┼──────", "Paper  │     5", "請求書 │    12"]
    assert table_rows(TABLE, 10) is None
    assert table_rows(["| no table", "| but two lines"], 60) is None


def test_a_line_is_drawn_anew_once_it_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    text = written("# Or", "ders\nplain", " text\n", monkeypatch=monkeypatch)

    assert click.unstyle(text) == "│ # \r│ Orders\n│ plain text\n\n"  # a word is kept until it is whole


def test_code_is_not_taken_for_markup_and_hidden_characters_are_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    text = click.unstyle(written("```py\n# a comment\n```\n**\x1b[2J\u202e**\n", monkeypatch=monkeypatch))

    assert "\r│ # a comment\n" in text
    assert "\x1b[2J" not in text
    assert "⟨U+001B⟩[2J⟨U+202E⟩" in text
