"""The tables of docs/performance.md: each stands between two comments and is replaced as a whole."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from config.clock import stamp
from config.folders import ROOT

PAGE = ROOT / "docs" / "performance.md"
_BLOCK = re.compile(r"<!-- bench (?P<name>\w+) -->\n.*?<!-- end -->", re.DOTALL)


def conditions(root: Path, rounds: int) -> str:
    """Return when, where and of which commit something is measured that begins now."""
    commit = _git(root, "describe", "--always") or "unknown"
    if _git(root, "status", "--porcelain", "--untracked-files=no", ".", f":!{PAGE.relative_to(ROOT)}"):
        commit += "-dirty"  # the page itself does not count: the measurement before this one has written to it
    return (
        f"Measured on {stamp()[:10]} at commit {commit}: {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, load {os.getloadavg()[0]:.1f} when it began, rounds: {rounds}."
    )


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(("git", *arguments), cwd=root, capture_output=True, text=True, check=False).stdout.strip()


def tables_in(page: str) -> list[str]:
    """Return the names of the measurements whose tables are on the page, in its order."""
    return [match["name"] for match in _BLOCK.finditer(page)]


def with_tables(page: str, tables: Mapping[str, str]) -> str:
    """Return the page with these measurements' tables in place of their old ones; the others stay."""

    def fresh(match: re.Match[str]) -> str:
        table = tables.get(match["name"])
        return match[0] if table is None else f"<!-- bench {match['name']} -->\n{table.strip()}\n<!-- end -->"

    return _BLOCK.sub(fresh, page)
