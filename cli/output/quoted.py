"""A model's text on a terminal, with a bar before each line, so that it cannot imitate Callboard's own output."""

from __future__ import annotations

import shutil
import unicodedata
from typing import TextIO

import click

from config.text.visible import JOINERS, visible

BAR = "│ "
INDENT = "    "
TAB = 8
NARROWEST = 20
"""Columns; a terminal that reports fewer is taken as unknown."""
UNKNOWN = 10_000
"""Columns of a terminal whose width is unknown: it breaks long lines itself."""


class Quoted:
    """Writes text that arrives in pieces: with bars to a terminal, word by word, and unchanged to a pipe or a file."""

    def __init__(self, stream: TextIO, **style: bool) -> None:
        self._stream = stream
        self._style = style
        self._width = (columns() or UNKNOWN) if stream.isatty() else 0
        self._column = 0
        self._last = self._held = self._word = ""
        self._word_width = 0
        self.rows = 1
        """Rows of the terminal that the unfinished line occupies."""

    def write(self, text: str) -> None:
        """Write one piece; keep a joiner or a CR at its end until the next piece."""
        text = (self._held + text).replace("\r\n", "\n")
        self._held = text[len(text.rstrip(JOINERS + "\r")) :]
        text = text[: len(text) - len(self._held)]
        if not text:
            return
        tail = visible(self._last + text)[len(visible(self._last)) :]
        self._last = text[-1]
        self._put("".join(map(self._words, tail)) if self._width else tail)

    def end(self) -> None:
        self._put(self._whole_word() + visible(self._held) + "\n")
        self.restart()

    def restart(self) -> None:
        """Begin a line: what was written of the last one is replaced."""
        self._column, self._last, self._held, self.rows = 0, "", "", 1
        self._word, self._word_width = "", 0

    def _put(self, text: str) -> None:
        click.secho(text, file=self._stream, nl=False, **self._style) if self._style else self._stream.write(text)
        self._stream.flush()

    def _words(self, character: str) -> str:
        """Return what can be written after this character: a word is kept until it is whole, or fills a line."""
        width = width_of(character)
        if character in " \t\n" or width == 2:  # between two wide ones a line may break
            word = self._whole_word()
            return word if character == " " and self._column >= self._width else word + self._placed(character)
        self._word += character
        self._word_width += width
        return self._whole_word() if self._word_width >= self._width - len(BAR) else ""

    def _whole_word(self) -> str:
        """Return the word that was kept, on a line of its own where this one has no room for it."""
        word, width = self._word, self._word_width
        self._word, self._word_width = "", 0
        before = ""
        if self._column > len(BAR) and self._column + width > self._width:
            before, self._column = f"\n{BAR}", len(BAR)
            self.rows += 1
        return before + "".join(map(self._placed, word))

    def _placed(self, character: str) -> str:
        """Return the character, preceded by a bar at the start of a line and by a line break at the right edge."""
        if character == "\n":
            empty = "" if self._column else BAR.rstrip()
            self._column, self.rows = 0, 1
            return f"{empty}\n"
        before = "" if self._column else BAR
        self._column = self._column or len(BAR)
        needs = TAB - self._column % TAB if character == "\t" else width_of(character)
        if self._column + needs > self._width:
            before, self._column = f"\n{BAR}", len(BAR)
            self.rows += 1
        self._column += needs
        return before + (" " * needs if character == "\t" else character)


def hanging(text: str, width: int = 0) -> str:
    """Return text whose lines after the first are indented deeper than any of ours; with a width, long ones are broken.

    So no line of a text from outside looks like one of Callboard's own, such as the one about a call's result.
    """
    first, *rest = visible(text.replace("\r\n", "\n")).split("\n")
    lines = [first, *(line if line.startswith(INDENT) else INDENT + line.lstrip(" ") for line in rest)]
    return "\n".join(part for line in lines for part in (_broken(line, width) if width else (line,)))


def columns() -> int:
    """Return how many columns the terminal has; 0 if unknown."""
    width = shutil.get_terminal_size().columns
    return width if width >= NARROWEST else 0


def fit(text: str, width: int) -> str:
    """Return text truncated to ``width`` columns, with an ellipsis if it was longer."""
    column = cut = 0
    for number, character in enumerate(text):
        column += width_of(character)
        if column > width:
            return text[:cut] + "…" if width > 0 else ""
        if column < width:
            cut = number + 1
    return text


def text_width(text: str) -> int:
    """Return the columns that a text of one line occupies."""
    return len(text) if text.isascii() else sum(map(width_of, text))


def width_of(character: str) -> int:
    """Return the columns that a character occupies."""
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _broken(line: str, width: int) -> list[str]:
    parts, part, column = [], "", 0
    for character in line:
        needs = width_of(character)
        if column + needs > width:
            at = part.rfind(" ", len(INDENT) + 1) + 1 or len(part)  # between words: an id stays whole, to be copied
            parts.append(part[:at].rstrip())
            part = INDENT + part[at:]
            column = text_width(part)
        part += character
        column += needs
    return [*parts, part]
