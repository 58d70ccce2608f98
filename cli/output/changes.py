"""Prints what differs between two versions of an agent."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from config.text.visible import visible

_COLOURS = {"-": "red", "+": "green"}


def print_changes(changes: Sequence[Mapping[str, Any]]) -> None:
    """Print each field that differs with its lines before and after."""
    for change in changes:
        note = "" if change["is_behaviour"] else "  (changes nothing of what a run does)"
        click.echo(f"{click.style(visible(change['field']), bold=True)}{note}")
        for line in _lines(change):
            click.secho(f"  {visible(line)}", fg=_COLOURS.get(line[0]))
    if not changes:
        click.echo("nothing differs.")


def _lines(change: Mapping[str, Any]) -> Iterator[str]:
    before, after = (_written(change, side) for side in ("before", "after"))
    for line in list(difflib.unified_diff(before, after, lineterm="", n=1))[2:]:
        if not line.startswith("@@"):
            yield f"{line[:1]} {line[1:]}"


def _written(change: Mapping[str, Any], side: str) -> list[str]:
    if side not in change:
        return []
    value = change[side]
    return (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)).splitlines()
