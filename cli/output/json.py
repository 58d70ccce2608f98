"""JSON output of commands."""

from __future__ import annotations

import sys

import orjson

from config.text.visible import escaped_json


def print_json(value: object, *, lines: bool = False) -> None:
    """Print a value as JSON and flush: indented, or as one line."""
    print_json_line(orjson.dumps(value, option=0 if lines else orjson.OPT_INDENT_2).decode())


def print_json_line(json: str) -> None:
    """Print encoded JSON and flush, with hidden characters escaped: a pipe often ends at a terminal, too."""
    sys.stdout.write(escaped_json(json) + "\n")
    sys.stdout.flush()
