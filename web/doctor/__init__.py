"""The doctor's checks by subject; a check takes the settings and yields verdicts, each with its remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pkgutil import resolve_name
from typing import Literal, NamedTuple

from config.errors import CallboardError
from config.redaction import redact
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


def examine(settings: Settings, checks: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the findings of every check by its subject; a check that raises is a finding itself.

    ``checks`` has the dotted path of each function, which is imported when its turn comes.
    """
    for about, path in checks.items():
        try:
            check: Check = resolve_name(path)
            for verdict, text in check(settings):
                yield Finding(about, verdict, redact(text))
        except CallboardError as error:
            yield Finding(about, "fail", redact(f"{error} [{error.code}]"))
        except Exception as error:  # a check with a bug must not hide the findings of others
            yield Finding(about, "fail", redact(f"could not be checked: {type(error).__name__}: {error}"))
