"""This checkout's ``pyproject.toml``, which is authoritative even if the package is not installed."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from config.settings.sources import ROOT

NAME = "callboard"


@lru_cache(maxsize=1)
def project() -> Mapping[str, Any]:
    """Return the table ``[project]``."""
    table: Mapping[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


def own_version() -> str:
    return str(project()["version"])


def shipped_entries(group: str) -> dict[str, EntryPoint]:
    """Return Callboard's own entry points of a group by name, from the file."""
    table: Mapping[str, str] = project().get("entry-points", {}).get(group, {})
    return {name: EntryPoint(name=name, value=value, group=group) for name, value in table.items()}


def installed_entries(group: str) -> dict[str, EntryPoint]:
    """Return other distributions' entry points of a group by name; the first value of a name counts."""
    by_name: dict[str, EntryPoint] = {}
    for entry in sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value)):
        if entry.dist is None or entry.dist.name != NAME:  # an installed Callboard may be another version
            by_name.setdefault(entry.name, entry)
    return by_name
