"""Parses a Google-style docstring into a description of the function and of each argument."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Raises|Yields|Example|Examples|Note|Notes):\s*$")
_ARGUMENT = re.compile(r"^\*{0,2}(\w+)\s*+(?:\([^)]*+\))?+\s*+:\s*+(.*)$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Described:
    """The parts of a docstring."""

    text: str = ""
    """All before the first section."""
    arguments: dict[str, str] = field(default_factory=dict)
    """What is said of each argument, on one line."""


def describe(function: Callable[..., Any]) -> Described:
    """Return what the docstring of ``function`` says; empty when there is none."""
    lines = (inspect.getdoc(function) or "").splitlines()
    start = next((n for n, line in enumerate(lines) if _SECTION.match(line)), len(lines))
    return Described(text="\n".join(lines[:start]).strip(), arguments=_arguments(lines[start:]))


def _arguments(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    section, indent, name = "", 0, ""
    for line in lines:
        heading = _SECTION.match(line)
        if heading:
            section, indent, name = heading[1], 0, ""
        elif section in ("Args", "Arguments", "Parameters") and line.strip():
            depth = len(line) - len(line.lstrip())
            indent = indent or depth
            entry = _ARGUMENT.match(line.strip()) if depth <= indent else None
            if entry:
                name = entry[1]
                found[name] = entry[2].strip()
            elif name:
                found[name] = f"{found[name]} {line.strip()}".strip()
    return found
