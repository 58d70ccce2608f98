"""Lists: a table that fits the terminal, or a line a row with whole values, separated by tabs, for other programs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import click

from cli.output.durations import age
from cli.output.json import print_json
from cli.output.quoted import INDENT, columns, fit, hanging, text_width
from config.ids import ALPHABET
from config.text.visible import visible

Form = Literal["table", "wide", "json", "name"]
"""How a list is printed: to the terminal's width, with all columns and whole ids, as JSON, or the ids alone."""
Row = Mapping[str, Any]
Note = tuple[str, str | None]
"""A sentence about a row, and its colour."""
GAP = "  "
MIN_LAST = 24
"""Columns that the last cell of a line gets, before other cells are left out for it."""
ENOUGH = 16
"""Columns that it gets, before the cells that stay are shortened."""
MAX_NOTE = 480
"""Most columns of a note, six lines of a usual terminal; ``-o wide`` has all of it."""
MAX_CELL = 32
"""Most columns of another cell."""
SHORT_ID = 6
"""Characters of an id that a terminal shows, its last ones, which are random; `cli.options` finds ids by them."""
_MADE = re.compile(rf"[a-z]+_[{ALPHABET}]{{26}}|own_[0-9a-f]{{12}}_[0-9]+_[0-9]+_[{ALPHABET}]{{12}}")
"""An id, and that of a worker, which names its machine and process first."""


@dataclass(frozen=True)
class Column:
    """What each row says under one title. The last column of a table takes the width that is left."""

    title: str
    cell: str | Callable[[Row], object]
    """A field's name, or a function of the row; None and an absent field are an empty cell."""
    worth: int = 100
    """The column with the least is left out first where the terminal is narrow; 100 is never left out."""
    is_time: bool = False
    """Whether the cell is a time, which a terminal shows as an age."""
    is_number: bool = False
    is_wide: bool = False
    """Whether only ``-o wide`` has it."""
    colour: Callable[[Row], str | None] | None = None
    mark: Callable[[Row], str] | None = None
    """A sign before the cell, on a terminal."""

    def text(self, row: Row, *, is_short: bool) -> str:
        """Return a row's cell on one line, its hidden characters visible; short: ids and times as people read them."""
        value = self.cell(row) if callable(self.cell) else row.get(self.cell)
        text = visible(" ".join(str(value).split())) if value is not None else ""
        if is_short and self.is_time:
            return age(text) if text else ""
        return short_id(text) if is_short else text

    def marked(self, row: Row, *, is_short: bool) -> str:
        """Return the cell of a terminal."""
        text = self.text(row, is_short=is_short)
        return f"{self.mark(row)} {text}" if self.mark is not None and text else text

    def styled(self, text: str, row: Row) -> str:
        """Return the cell in its colour."""
        return click.style(text, fg=self.colour(row)) if self.colour is not None and text.strip() else text


def short_id(text: str) -> str:
    """Return the last characters of an id that Callboard made; another text as it is."""
    return text[-SHORT_ID:] if _MADE.fullmatch(text) else text


@dataclass(frozen=True)
class Table:
    """The columns of a list."""

    name: str
    """The field that names a row: what ``-o name`` prints."""
    columns: Sequence[Column]
    notes: Callable[[Row], Iterable[Note]] | None = None
    """Sentences about a row: lines below it on a terminal, else its last cell."""

    def print(self, rows: Sequence[Row], form: Form, *, empty: str = "") -> None:
        """Print the rows in a form; without any, say on standard error what ``empty`` says."""
        if form == "json":
            print_json(rows)
        elif form == "name":
            for row in rows:
                if row.get(self.name) is not None:
                    click.echo(visible(str(row[self.name])))
        elif not rows and empty:
            click.echo(empty, err=True)
        elif rows:
            is_terminal = sys.stdout.isatty()
            lines = self.lines(rows, columns() or 80, form) if is_terminal else self.plain(rows, form)
            click.echo("\n".join(lines))

    def lines(self, rows: Sequence[Row], width: int, form: Form = "table") -> list[str]:
        """Return the lines of a terminal with so many columns: titles and rows, and below each row its notes."""
        is_short = form != "wide"
        chosen = [column for column in self.columns if form == "wide" or not column.is_wide]
        cells = {column: [column.marked(row, is_short=is_short) for row in rows] for column in chosen}
        chosen = [column for column in chosen if any(cells[column]) or column.worth >= 100]
        widths = {column: _width(column, cells[column]) for column in chosen}
        if is_short:
            _leave_out(chosen, widths, width)
        room = width if is_short else 0
        lines = [click.style(_line(chosen, widths, room, [column.title for column in chosen], None), dim=True)]
        for at, row in enumerate(rows):
            lines.append(_line(chosen, widths, room, [cells[column][at] for column in chosen], row))
            for note, colour in self.notes(row) if self.notes is not None else ():
                whole = " ".join(note.split())
                text = hanging(INDENT + (fit(whole, MAX_NOTE) if is_short else whole), width)
                lines.append(click.style(text, fg=colour) if colour is not None else text)
        return lines

    def plain(self, rows: Sequence[Row], form: Form) -> Iterable[str]:
        """Yield a line a row for programs: whole values between tabs, without titles."""
        chosen = [column for column in self.columns if form == "wide" or not column.is_wide]
        for row in rows:
            cells = [column.text(row, is_short=False) for column in chosen]
            if self.notes is not None:
                cells.append("; ".join(visible(" ".join(note.split())) for note, _ in self.notes(row)))
            yield "\t".join(cells).rstrip("\t")


def _width(column: Column, cells: Sequence[str]) -> int:
    return max(map(text_width, (column.title, *cells)))


def _leave_out(chosen: list[Column], widths: dict[Column, int], width: int) -> None:
    """Leave columns out until the last one has room; then no other is wider than its share."""
    last = chosen[-1]
    for column in chosen[:-1]:
        widths[column] = min(widths[column], MAX_CELL)

    def lacks(least: int) -> int:
        before = sum(widths[column] + len(GAP) for column in chosen[:-1])
        return before + min(widths[last], least) - width

    while lacks(MIN_LAST) > 0:
        column = min(chosen, key=lambda column: column.worth)
        if column.worth >= 100 or column is last:
            break
        chosen.remove(column)
    while (missing := lacks(ENOUGH)) > 0:
        widest = max(chosen[:-1], key=lambda column: widths[column], default=None)
        if widest is None or widths[widest] <= SHORT_ID:
            break
        widths[widest] = max(SHORT_ID, widths[widest] - missing)


def _line(
    chosen: Sequence[Column], widths: Mapping[Column, int], width: int, cells: Sequence[str], row: Row | None
) -> str:
    """Return a line of at most ``width`` columns; 0: of any length."""
    parts, left = [], width
    for column, cell in zip(chosen, cells, strict=True):
        is_last = column is chosen[-1]
        text = fit(cell, max(left, 1) if is_last else widths[column]) if width else cell
        blanks = " " * (widths[column] - text_width(text))
        left -= widths[column] + len(GAP)
        styled = column.styled(text, row) if row is not None else text
        parts.append(blanks + styled if column.is_number else styled if is_last else styled + blanks)
    return GAP.join(parts).rstrip()
