"""A model's Markdown on a terminal: shown as it arrives, and each line that has markup drawn anew once it is whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from shutil import get_terminal_size
from typing import NamedTuple, TextIO

import click

from cli.output.quoted import BAR, UNKNOWN, Quoted, columns, text_width, width_of
from config.text.visible import visible

MAX_LINE_CHARS = 4000
"""A longer line is left as it arrived."""
_BLOCK = re.compile(
    r"(?P<indent> {0,12})(?:(?P<heading>#{1,6}) |(?P<bullet>[-*+]) |(?P<number>\d{1,9}[.)]) |(?P<quote>>) ?)"
)
_RULE = re.compile(r" {0,3}(?:-{3,}|\*{3,}|_{3,}) *")
_INLINE = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|__([^_]+)__|\*([^*\s][^*]*)\*|\[([^\[\]]+)\]\(([^()\s]+)\)")
_DIVIDER = re.compile(r"[-:| ]+")
_FENCE = "```"


class StyledText(NamedTuple):
    """A part of a line, with how it looks."""

    text: str
    look: str = ""
    """``bold``, ``italic``, ``underline``, ``dim`` or ``code``."""

    def styled(self, text: str) -> str:
        if self.look == "code":
            return click.style(text, fg="cyan")
        return click.style(text, **{self.look: True}) if self.look else text


class Markdown:
    """Writes a model's text that arrives in pieces to a terminal, as ``Quoted`` does, with its Markdown rendered."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._raw = Quoted(stream)
        self._width = columns() or UNKNOWN
        self._line = ""
        self._table: list[str] = []
        self._table_rows = 0
        self._is_code = False

    def write(self, text: str) -> None:
        first, *others = text.replace("\r\n", "\n").split("\n")
        self._add(first)
        for part in others:
            if self._line:
                self._end_line()
            else:
                self._end_table()
                self._raw.write("\n")
            self._add(part)

    def end(self) -> None:
        if self._line or not self._table:
            self._end_line()
        self._end_table()
        self._is_code = False

    def _add(self, part: str) -> None:
        if part and not self._line and not part.startswith("|"):
            self._end_table()
        self._line += part
        if part:
            self._raw.write(part)

    def _end_line(self) -> None:
        line, self._line = self._line, ""
        if line.startswith("|") and not self._is_code and len(line) <= MAX_LINE_CHARS:
            self._table.append(line)
            self._table_rows += self._raw.rows
            self._raw.end()
            return
        self._end_table()
        rows = self._rendered(line)
        if rows is None or self._raw.rows > _height() - 1:
            self._raw.end()
        else:
            self._put(self._raw.rows - 1, rows)
            self._raw.restart()

    def _end_table(self) -> None:
        """Draw the table that ended anew, if it is one and all of it is still on the screen."""
        lines, rows = self._table, self._table_rows
        self._table, self._table_rows = [], 0
        drawn = table_rows(lines, self._width - len(BAR)) if lines else None
        if drawn is not None and rows <= _height() - 1:
            self._put(rows, drawn)

    def _put(self, above: int, rows: Sequence[str]) -> None:
        """Write rows in place of the cursor's, of so many above it, and of all below."""
        up = f"\x1b[{above}A" if above else ""
        body = "".join(f"{BAR.rstrip()}\n" if not row else f"{BAR}{row}\n" for row in rows)
        self._stream.write(f"\r{up}\x1b[J{body}")
        self._stream.flush()

    def _rendered(self, line: str) -> list[str] | None:
        """Return the rows of a line; None where it has no markup, and stands as it arrived."""
        if line.lstrip().startswith(_FENCE):
            self._is_code = not self._is_code
            return [click.style(visible(line), dim=True)]
        if len(line) > MAX_LINE_CHARS:
            return None
        line = visible(line.expandtabs(4))
        if self._is_code:
            return [click.style(row, fg="cyan") for row in _wrapped([StyledText(line)], self._width - len(BAR))]
        if _RULE.fullmatch(line):
            return [click.style("─" * min(40, self._width - len(BAR)), dim=True)]
        return line_rows(line, self._width - len(BAR))


def line_rows(line: str, width: int) -> list[str] | None:
    """Return a line that is no part of code or of a table in rows that fit ``width``; None: it has no markup."""
    block = _BLOCK.match(line)
    text = line[block.end() :] if block is not None else line
    look = "bold" if block is not None and block["heading"] else "dim" if block is not None and block["quote"] else ""
    spans = list(_spans(text, look))
    if block is None and len(spans) <= 1 and not (spans and spans[0].look):
        return None
    first = ""
    if block is not None and not block["heading"]:
        mark = "•" if block["bullet"] else block["number"] or "▏"
        first = f"{block['indent']}{mark} "
    rest = " " * text_width(first) if block is None or not block["quote"] else first
    rows = _wrapped(spans, max(8, width - len(first)))
    return [(first if number == 0 else rest) + row for number, row in enumerate(rows)] or [first.rstrip()]


def _spans(text: str, look: str) -> Iterator[StyledText]:
    end = 0
    for match in _INLINE.finditer(text):
        if match.start() > end:
            yield StyledText(text[end : match.start()], look)
        code, bold, strong, italic, name, url = match.groups()
        if name is not None:
            yield StyledText(name, "underline")
            yield StyledText("" if name == url else f" ({url})", "dim")
        elif code is not None:
            yield StyledText(code, "code")
        else:
            yield StyledText(bold or strong or italic, "italic" if italic is not None else "bold")
        end = match.end()
    if end < len(text):
        yield StyledText(text[end:], look)


def _wrapped(spans: Sequence[StyledText], width: int) -> list[str]:
    """Return the styled rows of a line, broken between words where that is possible."""
    rows, row, column = list[str](), "", 0
    for span in spans:
        for word in re.findall(r"\s+|\S+", span.text):
            needs = text_width(word)
            if column + needs > width and column:
                rows.append(row.rstrip())
                row, column = "", 0
                if word.isspace():
                    continue
            while needs > width:  # a word that is longer than a row
                cut = _fitting(word, width)
                rows.append(span.styled(word[:cut]))
                word = word[cut:]
                needs = text_width(word)
            row += span.styled(word)
            column += needs
    return [*rows, row] if row else rows


def _fitting(text: str, width: int) -> int:
    """Return how many characters of a text fit; at least one."""
    column = 0
    for number, character in enumerate(text):
        column += width_of(character)
        if column > width:
            return max(1, number)
    return len(text)


def table_rows(lines: Sequence[str], width: int) -> list[str] | None:
    """Return the rows of a table with aligned columns; None where it is none, or wider than the terminal."""
    if len(lines) < 2 or "-" not in lines[1] or not _DIVIDER.fullmatch(lines[1]):
        return None
    table = [_cells(line) for line in (lines[0], *lines[2:])]
    count = len(table[0])
    is_number = [mark.endswith(":") and not mark.startswith(":") for mark in _cells(lines[1])] + [False] * count
    table = [(cells + [""] * count)[:count] for cells in table]
    plain = [["".join(span.text for span in _spans(cell, "")) for cell in cells] for cells in table]
    widths = [max(text_width(cells[column]) for cells in plain) for column in range(count)]
    if sum(widths) + 3 * (count - 1) > width:
        return None
    rows = []
    for number, cells in enumerate(table):
        parts = []
        for column, cell in enumerate(cells):
            styled = "".join(span.styled(span.text) for span in _spans(cell, "" if number else "bold"))
            blanks = " " * (widths[column] - text_width(plain[number][column]))
            parts.append(blanks + styled if is_number[column] else styled + blanks)
        rows.append(" │ ".join(parts).rstrip())
        if number == 0:
            rows.append(click.style("─┼─".join("─" * size for size in widths), dim=True))
    return rows


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|").removesuffix("|")
    return [visible(cell.strip().replace(r"\|", "|")) for cell in re.split(r"(?<!\\)\|", inner)]


def _height() -> int:
    return get_terminal_size().lines
