"""How many requests each call got, and how it answered them."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

Answers = Mapping[str, Mapping[str, int]]
"""The number of answers by call and status."""


class Counted:
    """The answers that have come so far."""

    def __init__(self) -> None:
        self._found: dict[str, Counter[str]] = defaultdict(Counter)

    def add(self, call: str, status: int) -> None:
        self._found[call][str(status)] += 1

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(self._found))


def read(path: Path) -> Answers:
    answers: Answers = json.loads(path.read_text())
    return answers


def show(answers: Answers, console: Console) -> None:
    """Print a line for each call."""
    table = Table("call", "answers", "2xx", "by status", title="Requests")
    for call in sorted(answers):
        by_status = ", ".join(f"{status}: {count}" for status, count in sorted(answers[call].items()))
        table.add_row(call, str(sum(answers[call].values())), str(_successes(answers[call])), by_status)
    console.print(table)


def never_successful(calls: Iterable[str], answers: Answers) -> list[str]:
    """Return those of the calls that have not answered with a 2xx."""
    return sorted(call for call in calls if not _successes(answers.get(call, {})))


def _successes(by_status: Mapping[str, int]) -> int:
    return sum(count for status, count in by_status.items() if status.startswith("2"))
