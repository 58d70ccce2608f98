"""The doctor's checks by subject; a check takes the settings and yields verdicts, each with its remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from config.settings import Settings

Verdict = Literal["ok", "warn", "fail"]
"""``fail``: work or keys may be lost, or nothing runs; ``warn``: slower or riskier than necessary."""
Judged = tuple[Verdict, str]
Verdicts = Iterator[Judged]
Check = Callable[[Settings], Verdicts]


def ok(text: str) -> Judged:
    return "ok", text


def warn(text: str) -> Judged:
    return "warn", text


def fail(text: str) -> Judged:
    return "fail", text


class Finding(NamedTuple):
    """One line of the doctor's output."""

    about: str
    verdict: Verdict
    text: str
    """What was found; with a remedy if the verdict is not ok."""
