"""docs/failure-model.md: its rows, and the row of each place that a run passes."""

from __future__ import annotations

import re

from cli.crashlab.places import Place
from config.folders import ROOT

PAGE = ROOT / "docs" / "failure-model.md"
_ROW = re.compile(r"^\| ([^|]+) \| ((?:`[a-z-]+`(?:, )?)+) \|", re.MULTILINE)
_COMPENSATIONS = re.compile(r"the compensation `[^`]+`")
_CALLS = re.compile(r"(?:one of )?`[^`]+`(?:, `[^`]+`)*")
_WORDS = re.compile(r"^(?:just before|after|before) (?:the commit that )?")

Row = tuple[str, str]
"""What is done there, and a failpoint: a row of the page has one or more of them."""


def rows() -> set[Row]:
    """Return the rows of the page, one for each failpoint."""
    table = _ROW.findall(PAGE.read_text())
    return {(what, point) for what, points in table for point in re.findall(r"[a-z-]+", points)}


def row_of(place: Place) -> Row:
    """Return the row that a place belongs to: the names and the number of its calls do not count."""
    what = _COMPENSATIONS.sub("a compensation", _WORDS.sub("", place.where))
    return _CALLS.sub("a tool", what), place.name


def is_described(row: Row) -> bool:
    """Return whether the page has a row, or rows that together are this one: a group commit of several runs."""
    all_rows, (what, point) = rows(), row
    if row in all_rows:
        return True
    parts = _parts_of(what)
    if sum(part.startswith("left the run") for part in parts) < 2:
        return False
    parts -= {"left the run running"}  # the commit of a run that continues changes no status
    contained = [_parts_of(other) for other, at in all_rows if at == point and _parts_of(other) <= parts]
    return set().union(*contained) == parts


def _parts_of(what: str) -> set[str]:
    return set(re.split(r", | and ", what))
